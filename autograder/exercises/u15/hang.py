"""Check of a backward pass in which every rank makes all calls, with rows or without."""

import random
from typing import Any

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.exercises.model_answers import mistakes_of, questions_of
from autograder.exercises.u15.shared.gradients import LABELS, TRAINERS, on_every_rank
from autograder.observing.u15 import hang

# Ranks and rows: none without rows, fewer rows than ranks, and as many whose chunks do not reach.
SIZES = ((2, 4), (4, 2), (4, 5), (3, 4), (2, 1), (4, 8), (1, 3), (5, 6), (3, 1), (4, 6))
FIELDS = ("num_ranks", "num_rows", "width", "has_gradients")


def share_cases(seed: int) -> list[Case]:
    """Ranks without rows and all with some; gradients from before or none."""
    rng = random.Random(seed)
    cases = [(4, 5, 2, False)]
    for has_gradients in (False, True):
        cases += [(*sizes, rng.randint(2, 9), has_gradients) for sizes in SIZES]
    return [dict(zip(FIELDS, each, strict=True)) for each in cases]


def measured(**case: Any) -> dict[str, Any]:
    """The gradient of all rows by one rank, and a call for each parameter."""
    model = hang.model_of(case, 0)
    gradients = [each.grad for each in model.parameters()]
    for rank in range(1, case["num_ranks"]):
        others = [each.grad for each in hang.model_of(case, rank).parameters()]
        gradients = [
            None if mine is None or other is None else mine + other
            for mine, other in zip(gradients, others, strict=True)
        ]
    for each, before in zip(model.parameters(), gradients, strict=True):
        each.grad = before
    batch = hang.batch_of(case)
    (model(batch).square().sum() / len(batch)).backward()
    whole = [each.grad for each in model.parameters()]
    return on_every_rank(whole, [each.nbytes for each in model.parameters()], changed_batches=0)


CHECK = Check(
    cases=share_cases,
    observe=hang.observe,
    judge=Behaviour(
        measured,
        *mistakes_of("u15-hang", observe=hang.observe),
        summarise=hang.summarise,
        questions=questions_of("u15-hang"),
        labels=LABELS | {"changed_batches": "ranks on which the batch has changed"},
    ),
    answers=TRAINERS,
)
