"""Rows of the tables as steps of the course's models, and the cases in which a plan is chosen."""

from course_utils.configs import ModelConfig, Plan
from course_utils.formulas.step import Step
from course_utils.records.sweeps import Run, runs

GIB = 2**30
PADDING = 128  # of Megatron-LM's vocabulary, for each tensor rank; nanotron pads nothing
STEP_SEQUENCES, FEWEST_PLANS = 256, 5  # of a case in which there is something to choose

SIZES = ("num_layers", "hidden_size", "num_heads", "num_kv_heads", "ffn_size")
LAYOUT = ("tensor", "pipeline", "zero_stage", "micro_batch")


def playbook() -> tuple[Run, ...]:
    """The Playbook's rows that ran."""
    return runs("playbook_runs")


def step_of(run: Run) -> Step:
    """A row as a step of its own tokens; context ranks shard the optimizer as replicas do."""
    multiple = 1 if run.device == "H100" else PADDING * run.tensor
    sizes = {name: getattr(run, name) for name in SIZES}
    words = -(-run.vocab_size // multiple) * multiple
    model = ModelConfig(**sizes, vocab_size=words, is_tied=bool(run.is_tied))
    layout = {name: getattr(run, name) for name in LAYOUT}
    plan = Plan(data=run.data * run.context, has_fp32_gradients=True, **layout)
    sequences = run.num_sequences * run.context
    return Step(model, run.seq_len // run.context, sequences, plan)


def cases_of_choice() -> list[list[int]]:
    """Places of the Playbook's plans of one model on so many nodes, where there are some.

    By name: in the sweep's own order the best come first, and a tie would find them.
    """
    cases: dict[tuple[str, int], list[int]] = {}
    for place in sorted(range(len(playbook())), key=lambda n: playbook()[n].name):
        run = playbook()[place]
        if run.num_sequences == STEP_SEQUENCES:
            cases.setdefault((run.model, run.nodes), []).append(place)
    return [places for _, places in sorted(cases.items()) if len(places) >= FEWEST_PLANS]
