"""SimuMax's runs of Megatron-LM on one node: seconds from rates alone, and memory by rank.

Its models with latent attention and experts are refused by name, and so are context ranks where
time is asked for; in memory they are a class of their own.
"""

from dataclasses import replace

from course_utils.configs import ModelConfig, Plan
from course_utils.formulas.cluster_step import MEGATRON, Pace, Rates, step_work
from course_utils.formulas.rank_memory import megatron_memory
from course_utils.formulas.step import Step
from course_utils.planner.truth.playbook import GIB
from course_utils.records.sweeps import SimuMaxRun, simumax_runs

PADDING = 128  # of the vocabulary, for each tensor rank


def _llama(h: int, heads: int, f: int, words: int) -> ModelConfig:
    return ModelConfig(
        num_layers=1,
        hidden_size=h,
        num_heads=heads,
        num_kv_heads=heads // 8 if h > 4096 else 8,
        ffn_size=f,
        vocab_size=words,
    )


# In llama3-405b each key serves eight queries as in the others, by the source's model file.
MODELS = {
    "llama3-8b": _llama(4096, 32, 14336, 128257),
    "llama3-70b": _llama(8192, 64, 28672, 128256),
    "llama3-405b": _llama(16384, 128, 53248, 128256),
}


def model_of(run: SimuMaxRun) -> ModelConfig:
    """A run's model, its vocabulary padded as Megatron-LM pads it."""
    model, multiple = MODELS[run.model], PADDING * run.tensor
    padded = -(-model.vocab_size // multiple) * multiple
    return replace(model, num_layers=run.num_layers, vocab_size=padded)


def plan_of(run: SimuMaxRun) -> Plan:
    """A run's layout; context ranks shard the optimizer as replicas do."""
    return Plan(data=run.data * run.context, tensor=run.tensor, pipeline=run.pipeline, zero_stage=1)


def measured_seconds(run: SimuMaxRun) -> float:
    """Seconds of a step; on A100 from the rate, by the FLOPs that SimuMax counts."""
    if run.step_seconds:
        return run.step_seconds
    model = MODELS[run.model]
    heads = 2 * model.num_heads + 2 * model.num_kv_heads
    layer = model.hidden_size * (heads * model.head_dim + 3 * model.ffn_size)
    numbers = run.num_layers * layer + model.vocab_size * model.hidden_size
    attention = 12 * run.num_layers * model.hidden_size * run.seq_len
    flops = run.seq_len * (6 * numbers + attention) * run.num_micro_batches * run.data
    num_devices = run.data * run.tensor * run.pipeline
    return flops / num_devices / (run.tflops * 1e12)


def timed_runs(device: str) -> list[SimuMaxRun]:
    """Runs of plain Llamas without context ranks whose time is known."""
    return [
        run
        for run in simumax_runs(device)
        if run.model in MODELS and run.context == 1 and (run.step_seconds or run.tflops)
    ]


def step_of(run: SimuMaxRun) -> Step:
    """A run as a step of its own tokens, where context ranks share a sequence."""
    sequences = run.num_micro_batches * plan_of(run).data
    return Step(model_of(run), run.seq_len // run.context, sequences, plan_of(run))


def step_seconds(run: SimuMaxRun, rates: Rates) -> float:
    """Seconds of a step from rates alone: no constant is fitted on a run."""
    return float(step_work(step_of(run), MEGATRON, rates).seconds(Pace()))


def measured_ranks() -> list[tuple[SimuMaxRun, int, float]]:
    """Runs of plain Llamas, stage and GiB of each run's first and last rank."""
    return [
        (run, stage, run.allocated_gib[rank])
        for run in simumax_runs("B200")
        if run.model in MODELS and run.allocated_gib
        for stage, rank in ((0, 0), (run.pipeline - 1, 7))
    ]


def rank_gib(run: SimuMaxRun, stage: int) -> float:
    """GiB of a rank, nothing fitted."""
    return megatron_memory(step_of(run), stage).expected / GIB
