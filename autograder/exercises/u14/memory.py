"""The check of unit 14 on memory: what the first rank of a pipeline holds at least."""

import random
from typing import Any

import torch

from autograder.checking.exercise_check import Case, named
from autograder.exercises.declaring import declares_check
from course_utils.instruments import simulate_pipeline
from course_utils.planner.first_rank import first_rank_of
from course_utils.records.sweeps import Run, runs
from course_utils.reference.pipeline_schedules import one_forward_one_backward

# === u14-memory
# Tensors without data, and a simulated pipeline; layouts of the sweep and new ones.


SHARDED = 1  # the highest ZeRO stage that nanotron has
MEMORY_NAMES = ("sizes", "plan", "num_micro_batches")
WORKED_SIZES = {"parameters": 10, "layers": 3, "layer_bytes": 400, "logits": 60}


def memory_cases(seed: int) -> list[Case]:
    """Rows of the sweep of each kind, and layouts with remainders; some have few micro-batches."""
    rng = random.Random(seed)
    cases = [named(MEMORY_NAMES, (WORKED_SIZES, _plan(4, 1, 2, 1, 2), 8))]
    cases += [_of_run(_drawn_run(rng, number)) for number in range(12)]
    cases += [_new_layout(rng, number) for number in range(12)]
    return cases


def _plan(*numbers: int) -> dict[str, int]:
    return named(("data", "tensor", "pipeline", "zero_stage", "micro_batch"), numbers)


def _drawn_run(rng: random.Random, number: int) -> Run:
    """With stages and without, with tensor ranks and without; DDP, ZeRO-1 or one replica."""
    return rng.choice(
        [
            run
            for run in runs("playbook_runs")
            if (run.pipeline > 1) == (number % 2 == 1)
            and run.zero_stage == number // 2 % 2
            and (run.data > 1 or number % 5 == 0)
        ]
    )


def _of_run(run: Run) -> Case:
    sizes, _ = first_rank_of(run)
    plan = _plan(run.data, run.tensor, run.pipeline, run.zero_stage, run.micro_batch)
    return named(MEMORY_NAMES, (sizes, plan, run.num_micro_batches))


def _new_layout(rng: random.Random, number: int) -> Case:
    """Parameters that leave a remainder; micro-batches fewer than stages, or as many."""
    tensor, pipeline = rng.choice((1, 2, 4)), (1, 2, 3, 5)[number % 4]
    data = 1 if number % 6 == 5 else rng.choice((2, 3, 4, 7))
    plan = _plan(data, tensor, pipeline, number // 2 % 2, rng.randint(1, 4))
    sizes = {
        "parameters": 2 * rng.randint(500, 9999) + 1,
        "layers": rng.randint(1, 9),
        "layer_bytes": 8 * rng.randint(100, 999),
        "logits": 4 * rng.randint(100, 999),
    }
    passes = (rng.randint(6, 20), max(1, pipeline - 1), pipeline)[number % 3]
    return named(MEMORY_NAMES, (sizes, plan, passes))


@declares_check(
    "u14-memory",
    memory_cases,
    labels={
        "state": "bytes of the state",
        "layers": "bytes of the layers' activations",
        "logits": "bytes of the logits",
        "added": "bytes that nanotron adds",
    },
    fallback="course_utils.formulas.first_rank.first_rank_bytes",
)
def stored(sizes: dict[str, int], plan: dict[str, Any], num_micro_batches: int) -> dict[str, int]:
    """Storages of a rank: parameters in each dtype, what is in flight, logits and gradient."""
    d, t, p, b = (plan[name] for name in ("data", "tensor", "pipeline", "micro_batch"))
    n = sizes["parameters"]
    is_sharded = plan["zero_stage"] == SHARDED and d > 1
    shards = torch.empty(n, dtype=torch.int8, device="meta").tensor_split(d if is_sharded else 1)
    low, full = _bytes(n, torch.bfloat16), _bytes(n, torch.float32)
    own = max(len(each) for each in shards)
    adam = sum(_bytes(own, torch.float32) for _ in ("master weight", "mean", "square"))
    buckets = low if d > 1 and not is_sharded else 0
    schedule = one_forward_one_backward(p, num_micro_batches)
    run = simulate_pipeline(schedule, num_micro_batches).require_complete()
    logits = b * sizes["logits"] // t
    both = sum(_bytes(logits, torch.float32) for _ in ("logits", "gradient"))
    return {
        "state": low + full + adam + buckets,
        "layers": int(run.in_flight(0)) * (b * sizes["layers"] * sizes["layer_bytes"] // t),
        "logits": both if p == 1 else 0,
        "added": low + (low if is_sharded else 0),
    }


def _bytes(count: int, dtype: torch.dtype) -> int:
    return torch.empty(count, dtype=dtype, device="meta").nbytes
