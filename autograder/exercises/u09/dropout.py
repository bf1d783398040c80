"""Check of ranks that begin with equal weights and continue with different random numbers."""

import random
from typing import Any

import torch

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.exercises.model_answers import mistakes_of
from autograder.observing.replay import LABELS
from autograder.observing.u09 import dropout
from autograder.observing.u09.dropout import model_of

KINDS = ("flat", "nested", "shared", "counting", "shared")


def begin_cases(seed: int) -> list[Case]:
    """Layers in a row, nested, or sharing a weight, on two to four ranks.

    All have a buffer of fractions; some, where it is not saved, have a counter as well, and some
    a frozen layer.
    """
    rng = random.Random(seed)
    cases = [_case([2, 3, 4], 2, 7, "flat")]
    for most_ranks in (2, 3, 2, 4):
        for kind, num_ranks in zip(KINDS, (2, 2, most_ranks, 2, 2), strict=True):
            width = rng.randint(2, 4)
            widths = [width] * 3 if kind == "shared" else [width, rng.randint(2, 4), width]
            cases.append(_case(widths, num_ranks, rng.randint(1, 10**6), kind))
    return cases


def _case(widths: list[int], num_ranks: int, seed: int, kind: str) -> Case:
    return {"widths": widths, "num_ranks": num_ranks, "seed": seed, "kind": kind}


def measured(**case: Any) -> dict[str, Any]:
    """Rank 0's weights everywhere, sent once, and another seed for each rank."""
    model = model_of(case, rank=0)
    weights, buffers = list(model.parameters()), list(model.buffers())
    return {
        "wrong_weights": 0,
        "wrong_buffers": 0,
        "otherwise_frozen": 0,
        "messages": 0,
        "other_calls": 0,
        "bytes": sum(each.nbytes for each in weights + buffers),
        "equal_numbers": 0,
        "wrong_numbers": 0,
        "forged_calls": 0,
        "weights": weights,
        "wants_gradient": [each.requires_grad for each in weights],
        "buffers": buffers,
        "numbers": [_first_number(case["seed"] + rank) for rank in range(case["num_ranks"])],
    }


def _first_number(seed: int) -> float:
    return torch.rand((), generator=torch.Generator().manual_seed(seed)).item()


CHECK = Check(
    cases=begin_cases,
    observe=dropout.observe,
    judge=Behaviour(
        measured,
        *mistakes_of("u09-dropout", observe=dropout.observe),
        summarise=dropout.summarise,
        labels=LABELS
        | {
            "wrong_weights": "weights that are not rank 0's, on all ranks",
            "wrong_buffers": "buffers that are not rank 0's, on all ranks",
            "otherwise_frozen": "ranks where requires_grad has changed",
            "messages": "messages from one rank to another",
            "other_calls": "There are calls to all ranks that are not a broadcast.",
            "bytes": "bytes that are sent",
            "equal_numbers": "ranks with the random numbers of another",
            "wrong_numbers": "ranks whose random numbers are not those of seed + rank",
        },
    ),
    answers=("course_utils.reference.bucketing.start_equal",),
)
