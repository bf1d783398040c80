"""Check of the buckets that PyTorch's DistributedDataParallel makes, by PyTorch's own functions."""

import random
from typing import Any

import torch
from torch._C._distributed_c10d import _compute_bucket_assignment_by_size
from torch.nn.parallel.distributed import _BucketCapacityConfig

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.exercises.model_answers import Edit, edited
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


# Places of the model answer.
LIMIT, FULL = "limit_bytes if full else first_limit_bytes", "waiting >= limit"
ADDED = "waiting += size\n"
GUESSED, ONE = "filled(parameter_bytes)[::-1]", "[sum(parameter_bytes)]"
ARRIVED = "[parameter_bytes[place] for place in arrival]"
LATER = "filled(arrived)"
EDITS = (
    Edit(
        "Your first step has several buckets where DDP has one. Which limit does it set before it "
        "has seen an order, if it does not look for unused parameters?",
        {ONE: "filled(parameter_bytes)[::-1]"},
    ),
    Edit(
        "Your first step has several buckets where DDP has one. Which limit does it set before it "
        "has seen an order, if it does not look for unused parameters?",
        {ONE: LATER},
    ),
    Edit(
        "Your buckets are never rebuilt. What does DDP know after the first step that it did not "
        "know before?",
        {LATER: "first"},
    ),
    Edit(
        "Your later buckets follow the parameters in reverse. In which order do the gradients of "
        "this model arrive?",
        {ARRIVED: "parameter_bytes[::-1]"},
    ),
    Edit(
        "Your later buckets follow the order of definition. In which order do gradients arrive?",
        {ARRIVED: "parameter_bytes"},
    ),
    Edit(
        "You turn the order of arrival around. Is its first entry the gradient that comes first "
        "or last?",
        {"in arrival]": "in reversed(arrival)]"},
    ),
    Edit(
        "You take `arrival[n]` for the moment at which gradient n comes. What does the card say "
        "that the list holds?",
        {ARRIVED: "[parameter_bytes[arrival.index(n)] for n in range(len(arrival))]"},
    ),
    Edit(
        "With `finds_unused` your buckets are rebuilt. What do the lines of "
        "`should_rebuild_buckets` say of that?",
        {"return guessed, guessed": f"return guessed, filled({ARRIVED.replace('place', 'n')})"},
    ),
    Edit(
        "With `finds_unused` your buckets have the right bytes in the wrong order. Which of them "
        "does DDP send first?",
        {GUESSED: "filled(parameter_bytes)"},
    ),
    Edit(
        "With `finds_unused` you turn the parameters around, and then fill buckets. What does the "
        "line with `reversed` turn around?",
        {GUESSED: "filled(parameter_bytes[::-1])"},
    ),
    Edit(
        "Your buckets end before they reach their limit. Does a limit say how many bytes a bucket "
        "may have, or how many end it?",
        {
            f"{ADDED}            if {FULL}": "if waiting and waiting + size > limit",
            f"{16 * ' '}waiting = 0": f"{16 * ' '}waiting = 0\n            waiting += size",
        },
    ),
    Edit(
        "A bucket that is exactly full waits for one gradient more in your answer. At how many "
        "bytes does it end?",
        {FULL: "waiting > limit"},
    ),
    Edit(
        "Your first bucket is as large as the others. Which limit has it by default, and why?",
        {LIMIT: "limit_bytes"},
    ),
    Edit(
        "All your buckets have the first one's limit. Which limit has the second?",
        {LIMIT: "first_limit_bytes"},
    ),
    Edit(
        "Your last bucket is missing where it does not become full. Who sends what is left when "
        "backward is over?",
        {"[*full, waiting] if waiting else full": "full"},
    ),
    Edit(
        "Your last bucket is empty where the one before it was exactly full. What is left then?",
        {"[*full, waiting] if waiting else full": "[*full, waiting]"},
    ),
)

CHECK = Check(
    cases=bucket_cases,
    observe=ddp_buckets.observe,
    judge=Behaviour(
        of_torch,
        *edited("u09-ddp-buckets", EDITS, observe=ddp_buckets.observe),
        summarise=ddp_buckets.summarise,
    ),
    fallback="course_utils.formulas.ddp_buckets.ddp_buckets",
    answers=BUCKETERS,
)
