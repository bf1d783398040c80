"""A plan as the arguments of a framework; what it cannot express is refused.

Names of arguments, with project and commit, are data: `arguments.csv` beside this module; why one
is missing, `refused.csv`.

>>> print(*flags("Megatron-LM", Plan(data=4, tensor=2, zero_stage=1), 4096, 256), sep="\\n")
--seq-length 4096 --micro-batch-size 1 --global-batch-size 256
--use-distributed-optimizer
--bf16 --grad-reduce-in-bf16
--tensor-model-parallel-size 2 --sequence-parallel
"""

import csv
import functools
from pathlib import Path

from course_utils.configs import Plan
from course_utils.configs.validation import find_named

TABLE = Path(__file__).with_name("arguments.csv")
REFUSED = Path(__file__).with_name("refused.csv")


@functools.cache
def arguments() -> dict[str, dict[str, str]]:
    """Of each framework, by what is true of a plan: arguments with places for numbers."""
    return _by_framework(TABLE, "arguments")


@functools.cache
def refused() -> dict[str, dict[str, str]]:
    """Of each framework, by how a trait that it lacks ends: why, and what would work."""
    return _by_framework(REFUSED, "why")


def _by_framework(table: Path, column: str) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    with table.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(line for line in file if not line.startswith("#")):
            found.setdefault(row["framework"], {})[row["when"]] = row[column]
    return found


def traits(plan: Plan) -> list[str]:
    """What is true of a plan, in the table's words."""
    staged, shared, has_replicas = plan.pipeline > 1, plan.tensor > 1, plan.data > 1
    stage = f"stage {plan.zero_stage}" if has_replicas else "no replicas"
    replicas = [stage] + shared * has_replicas * [f"{stage} with tensor ranks"]
    replicas += staged * has_replicas * [f"{stage} with several stages"]
    return [
        "always",
        *replicas,
        f"{stage} with gradients in {'fp32' if plan.has_fp32_gradients else 'bf16'}",
        *(["tensor ranks"] if shared else []),
        "several stages" if staged else "one stage",
        "layers run again" if plan.is_recomputed else "layers kept",
    ]


def flags(framework: str, plan: Plan, seq_len: int, num_sequences: int) -> list[str]:
    """The plan as a framework's arguments, a line for each thing that is true of it.

    Args:
        framework: ``"torchtitan"``, ``"Megatron-LM"``, ``"DeepSpeed"`` or ``"nanotron"``.
        plan: How a step is spread.
        seq_len: Tokens of a sequence.
        num_sequences: Of a step, on all devices.

    Raises:
        ValueError: If the framework is unknown or has no argument for the plan, or if the plan does
            not divide the sequence or the batch.
    """
    known = find_named("framework", framework, arguments())
    missing = [trait for trait in traits(plan) if trait not in known]
    if missing:
        named = [each for each in missing[1:] if _why(framework, each)]
        whys = "; nor for ".join(_refusal(framework, each) for each in missing[:1] + named)
        raise ValueError(f"{plan}: {framework} has no argument for {whys}")
    if seq_len % plan.tensor:
        raise ValueError(
            f"{plan}: sequence parallelism cuts {seq_len:,} tokens of a sequence into "
            f"{plan.tensor} equal parts; take tensor ranks that divide them"
        )
    num_micro_batches, rest = divmod(num_sequences, plan.data * plan.micro_batch)
    if rest:
        raise ValueError(f"{plan}: {num_sequences} sequences are no whole number of micro-batches")
    numbers = {
        **vars(plan),
        "seq_len": seq_len,
        "num_sequences": num_sequences,
        "num_micro_batches": num_micro_batches,
        "replica_sequences": num_sequences // plan.data,
    }
    return [line for trait in traits(plan) if (line := known[trait].format(**numbers))]


def _refusal(framework: str, trait: str) -> str:
    """What is true of a plan, and why a framework does not take it."""
    what = trait.replace("several stages", "several pipeline stages")
    zero = "ZeRO " if what.startswith("stage") else ""
    return f"{zero}{what}{_why(framework, trait)}"


def _why(framework: str, trait: str) -> str:
    whys = refused().get(framework, {})
    return "".join(f": {each}" for end, each in whys.items() if trait.endswith(end))
