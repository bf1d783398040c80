"""Check of the buckets that PyTorch's DistributedDataParallel makes, by PyTorch's own functions."""

import random
from typing import Any

import torch
from torch._C._distributed_c10d import _compute_bucket_assignment_by_size
from torch.nn.parallel.distributed import _BucketCapacityConfig

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.exercises.model_answers import mistakes_of
from autograder.exercises.u09.shared.backward_steps import BUCKETERS
from autograder.observing.u09 import ddp_buckets

FIELDS = ("parameter_bytes", "arrival", "first_limit_bytes", "limit_bytes", "finds_unused")


def bucket_cases(seed: int) -> list[Case]:
    """With and without a search for unused parameters; arrival in reverse and in another order.

    Some limits are met exactly, some parameters are larger than a limit, and some models smaller.
    """
    rng = random.Random(seed)
    cases = [_case([48, 96, 64], [2, 1, 0], 40, 100, False)]
    cases.append(_case([48, 96, 4 * rng.randint(11, 24)], [2, 1, 0], 40, 100, True))
    for number in range(20):
        sizes = [4 * rng.randint(10, 200) for _ in range(rng.randint(6, 12))]
        arrival = list(range(len(sizes)))[::-1]
        if number % 4 < 2:
            rng.shuffle(arrival)
        first, limit = 4 * rng.randint(20, 120), 4 * rng.randint(200, 500)
        match number % 5:
            case 0:  # met exactly, in the order of definition and in that of arrival
                sizes[arrival[0]], sizes[0] = first, first
                limit = sizes[arrival[1]] + sizes[arrival[2]]
            case 1:  # as with a bucket_cap_mb
                first = limit
            case 2:  # one that is larger than a limit, in the middle
                sizes[len(sizes) // 2] = limit + 4
            case 3 if number < 10:  # all in one
                first = limit = sum(sizes) + 4
        cases.append(_case(sizes, arrival, first, limit, number % 2 == 0))
    return cases


def _case(*values: Any) -> Case:
    return dict(zip(FIELDS, values, strict=True))


def of_torch(
    parameter_bytes: list[int],
    arrival: list[int],
    first_limit_bytes: int,
    limit_bytes: int,
    finds_unused: bool,
) -> dict[str, Any]:
    """What PyTorch's own functions make of parameters of so many bytes, as DDP calls them."""
    config = _BucketCapacityConfig(
        bucket_bytes_cap=limit_bytes,
        per_bucket_bytes_caps=(),
        first_bucket_bytes_cap=first_limit_bytes,
    )
    limits, _ = config.compute_bucket_size_limits(
        static_graph=False, find_unused_parameters=finds_unused
    )
    guessed = _assigned(parameter_bytes, list(range(len(parameter_bytes))), limits)[::-1]
    rebuilt = _assigned(parameter_bytes, arrival, [first_limit_bytes, limit_bytes])
    steps = {"the first step": guessed, "later steps": guessed if finds_unused else rebuilt}
    return {**ddp_buckets.numbers(steps, steps), "steps": steps}


def _assigned(sizes: list[int], order: list[int], limits: list[int]) -> list[int]:
    """Bytes of the buckets to which PyTorch assigns tensors that come in an order."""
    tensors = [torch.empty(sizes[n], dtype=torch.uint8, device="meta") for n in order]
    buckets, _ = _compute_bucket_assignment_by_size(tensors, limits, [], order)
    return [sum(sizes[n] for n in bucket) for bucket in buckets]


CHECK = Check(
    cases=bucket_cases,
    observe=ddp_buckets.observe,
    judge=Behaviour(
        of_torch,
        *mistakes_of("u09-ddp-buckets", observe=ddp_buckets.observe),
        summarise=ddp_buckets.summarise,
    ),
    fallback="course_utils.formulas.ddp_buckets.ddp_buckets",
    answers=BUCKETERS,
)
