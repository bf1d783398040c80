"""Check of the gradient of a mean over all micro-batches of all ranks."""

import random
from typing import Any

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.exercises.model_answers import mistakes_of, questions_of
from autograder.exercises.u15.shared.gradients import LABELS, TRAINERS, on_every_rank
from autograder.observing.u09.after_backward import gradients_of
from autograder.observing.u15 import scale

FIELDS = ("num_ranks", "num_micro_batches", "num_rows", "width")


def mean_cases(seed: int) -> list[Case]:
    """One rank to four, with one micro-batch to four of one row to three."""
    rng = random.Random(seed)
    cases = [(2, 3, 1, 2)]
    for num_ranks in (2, 3, 4, 1):
        for num_micro_batches in (2, 3, 1, 4, 2):
            cases.append((num_ranks, num_micro_batches, rng.randint(1, 3), rng.randint(2, 4)))
    return [dict(zip(FIELDS, each, strict=True)) for each in cases]


def measured(**case: Any) -> dict[str, Any]:
    """The gradient of the mean by one rank with all rows, and a call for each parameter."""
    model = scale.model_of(case)
    every = [scale.micro_batches_of(case, rank) for rank in range(case["num_ranks"])]
    rows = [row for batches in every for batch in batches for row in batch]
    sum(model(row).square().mean() / len(rows) for row in rows).backward()
    gradients = gradients_of(list(model.parameters()))
    return on_every_rank(gradients, [each.nbytes for each in model.parameters()], lost=0)


CHECK = Check(
    cases=mean_cases,
    observe=scale.observe,
    judge=Behaviour(
        measured,
        *mistakes_of("u15-scale", observe=scale.observe),
        summarise=scale.summarise,
        questions=questions_of("u15-scale"),
        labels=LABELS | {"lost": "micro-batches removed from the list"},
    ),
    answers=TRAINERS,
)
