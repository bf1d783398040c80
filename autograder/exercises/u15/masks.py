"""Check of dropout that differs from rank to rank and from step to step, and can be repeated."""

import random
from typing import Any

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.exercises.model_answers import mistakes_of, questions_of
from autograder.exercises.u15.shared.gradients import LABELS, TRAINERS
from autograder.observing.u15 import masks

FIELDS = ("num_ranks", "num_steps", "width", "seed")


def mask_cases(seed: int) -> list[Case]:
    """One rank to four, one step to three; small seeds, zero too, and large ones."""
    rng = random.Random(seed)
    cases = [(2, 2, 2, 7)]
    for number in range(20):
        num_ranks, num_steps = (2, 3, 4, 3, 1)[number % 5], (2, 1, 3, 2)[number % 4]
        some_seed = 0 if number % 7 == 3 else rng.randint(1, 10 ** rng.randint(1, 6))
        cases.append((num_ranks, num_steps, rng.randint(2, 4), some_seed))
    return [dict(zip(FIELDS, each, strict=True)) for each in cases]


def measured(**case: Any) -> dict[str, Any]:
    """Every mask once, gradients under them summed, a call for each parameter."""
    parameters = list(masks.Dropping(case["width"]).parameters())
    numbers = {
        "masks": case["num_ranks"] * case["num_steps"],
        "other_rows": 0,
        "kept_all": 0,
        "unrepeatable": 0,
        "seedless": 0,
        "on_other_rank": 0,
        "in_other_step": 0,
        "elsewhere": 0,
        "shifted": 0,
        "forged_calls": 0,
        "calls": len(parameters),
        "bytes": sum(each.nbytes for each in parameters),
        "wrong_ranks": 0,
    }
    return {**numbers, "numbers": numbers}


CHECK = Check(
    cases=mask_cases,
    observe=masks.observe,
    judge=Behaviour(
        measured,
        *mistakes_of("u15-masks", observe=masks.observe),
        summarise=masks.summarise,
        questions=questions_of("u15-masks"),
        labels=LABELS
        | {
            "masks": "masks of all ranks and steps",
            "other_rows": "forward passes with the wrong number of rows",
            "kept_all": "masks that drop nothing",
            "unrepeatable": "ranks that drop other units in a second run",
            "seedless": "ranks that drop the same units with another seed",
            "on_other_rank": "masks that another rank has in the same step",
            "in_other_step": "masks that the rank has in another step",
            "elsewhere": "masks that another rank has in another step",
            "shifted": "ranks whose masks are another rank's, shifted by some units",
            "wrong_ranks": "ranks without the summed gradients",
        },
    ),
    answers=TRAINERS,
)
