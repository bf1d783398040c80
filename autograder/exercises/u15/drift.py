"""Check of gradients that travel several in one call, the last of them too."""

import random
from itertools import pairwise
from typing import Any

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.exercises.model_answers import mistakes_of, questions_of
from autograder.exercises.u09.shared.backward_steps import grouped
from autograder.exercises.u15.shared.gradients import LABELS, TRAINERS, on_every_rank
from autograder.observing.u09.after_backward import gradients_of
from autograder.observing.u09.on_ranks import FLOAT64_BYTES
from autograder.observing.u15 import drift

KINDS = ("rest", "exact", "never full", "single", "last alone")
FIELDS = ("widths", "num_ranks", "bucket_bytes")


def bucket_cases(seed: int) -> list[Case]:
    """Buckets with a remainder or none, one that is never full, one for each gradient."""
    rng = random.Random(seed)
    cases = [dict(zip(FIELDS, ([2, 3, 4], 2, 72), strict=True))]
    for num_ranks in (2, 3, 4, 1):
        for kind in KINDS:
            widths = [rng.randint(2, 3)]
            while len(widths) < 4:
                widths.append(widths[-1] + rng.randint(1, 2))
            if num_ranks % 2:
                widths.reverse()
            values = (widths, num_ranks, _bucket_bytes(widths, kind))
            cases.append(dict(zip(FIELDS, values, strict=True)))
    return cases


def sizes_of(widths: list[int]) -> list[int]:
    """Bytes of each weight and bias, first to last."""
    return [FLOAT64_BYTES * each for a, b in pairwise(widths) for each in (a * b, b)]


def _bucket_bytes(widths: list[int], kind: str) -> int:
    sizes = sizes_of(widths)
    return {
        "rest": sum(sizes[:3]),
        "exact": sum(sizes),
        "never full": sum(sizes) + FLOAT64_BYTES,
        "single": FLOAT64_BYTES,
        "last alone": sizes[-1],
    }[kind]


def measured(**case: Any) -> dict[str, Any]:
    """The gradient of the whole batch by one rank, in buckets that end when they are full."""
    model = drift.model_of(case)
    for rank in range(case["num_ranks"]):
        drift.loss_of(model, case, rank).backward()
    gradients = gradients_of(list(model.parameters()))
    buckets = [sum(each) for each in grouped(sizes_of(case["widths"]), case["bucket_bytes"])]
    return on_every_rank(gradients, buckets, other_buckets=0, buckets=buckets)


CHECK = Check(
    cases=bucket_cases,
    observe=drift.observe,
    judge=Behaviour(
        measured,
        *mistakes_of("u15-drift", observe=drift.observe),
        summarise=drift.summarise,
        questions=questions_of("u15-drift"),
        labels=LABELS | {"other_buckets": "buckets of the wrong size"},
    ),
    answers=TRAINERS,
)
