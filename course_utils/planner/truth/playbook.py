"""The Playbook's rows as the course's models and plans, and in which class each of them is."""

import functools

from course_utils.configs import ModelConfig, Plan
from course_utils.formulas.step import Step
from course_utils.records.sweeps import PlaybookRun, playbook_runs

GIB = 2**30
NODE = 8  # devices
FEWEST_PLANS = 5  # of a case whose best plan is looked for
STEP_SEQUENCES = 256  # of almost all rows


@functools.lru_cache(maxsize=32)
def _model(*sizes: int, is_tied: bool) -> ModelConfig:
    layers, h, f, words, heads, kv_heads = sizes
    return ModelConfig(
        num_layers=layers,
        hidden_size=h,
        ffn_size=f,
        vocab_size=words,
        num_heads=heads,
        num_kv_heads=kv_heads,
        is_tied=is_tied,
    )


def model_of(run: PlaybookRun) -> ModelConfig:
    """Sizes of a row's model; the two small ones share embedding and head."""
    sizes = (run.num_layers, run.hidden_size, run.ffn_size, run.vocab_size)
    return _model(*sizes, run.num_heads, run.num_kv_heads, is_tied=run.size < 4)


def plan_of(run: PlaybookRun) -> Plan:
    """A row's layout."""
    return Plan(
        data=run.data,
        tensor=run.tensor,
        pipeline=run.pipeline,
        zero_stage=run.zero_stage,
        micro_batch=run.micro_batch,
    )


def step_of(run: PlaybookRun) -> Step:
    """A row as a step."""
    return Step(model_of(run), run.seq_len, run.num_sequences, plan_of(run))


def cases_of_choice() -> list[list[PlaybookRun]]:
    """Measured plans of one model on so many nodes, where there are some to choose among.

    By name: in the sweep's own order the best come first, and a tie would find them.
    """
    cases: dict[tuple[float, int], list[PlaybookRun]] = {}
    for run in sorted(playbook_runs(), key=lambda each: each.name):
        if run.num_sequences == STEP_SEQUENCES:
            cases.setdefault((run.size, run.nodes), []).append(run)
    return [plans for _, plans in sorted(cases.items()) if len(plans) >= FEWEST_PLANS]


def tensor_ranks_first(run: PlaybookRun) -> float:
    """The Playbook's first advice, least number first: tensor ranks to a node, then replicas."""
    ranks = -run.tensor if run.tensor <= NODE else run.tensor
    return ranks + run.pipeline / 1e3 - run.micro_batch / 1e6
