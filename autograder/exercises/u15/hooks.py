"""Check of gradients that are sent in hooks while backward goes on."""

import random
from typing import Any

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.exercises.model_answers import mistakes_of, questions_of
from autograder.exercises.u09.shared.backward_steps import (
    ELEMENT_BYTES,
    ready_gradients,
    whole_gradients,
)
from autograder.exercises.u15.shared.gradients import LABELS, TRAINERS
from autograder.observing.observation import length_of
from autograder.observing.u09.backward_steps import job_of
from autograder.observing.u15 import hooks

FIELDS = ("widths", "num_ranks", "bandwidth", "has_gradients")
NUM_CASES = 20


def overlap_cases(seed: int) -> list[Case]:
    """Two layers to four on two ranks and three; slow links and fast ones; gradients before."""
    rng = random.Random(seed)
    cases: list[Case] = [dict(zip(FIELDS, ([2, 3, 4, 2], 2, 8, False), strict=True))]
    for number in range(NUM_CASES):
        widths = [rng.randint(1, 2)]
        while len(widths) < 3 + number % 3:
            widths.append(widths[-1] + rng.randint(1, 2))
        values = (widths, 2 + (number % 4 == 1), rng.choice((2, 4, 16)), number % 5 == 2)
        cases.append(dict(zip(FIELDS, values, strict=True)))
    return cases


def measured(**case: Any) -> dict[str, Any]:
    """The gradient of the whole batch; each leaves when it is complete and the links are free."""
    ready = ready_gradients(case["widths"], ELEMENT_BYTES["float64"])
    gradients = whole_gradients(job_of(case))
    num_ranks, free = case["num_ranks"], 0.0
    for each in ready:
        ring = 2 * (num_ranks - 1) * (1 + each.num_bytes / num_ranks / case["bandwidth"])
        free = max(free, each.seconds) + ring
    return {
        "forged_calls": 0,
        "backward_passes": 1,
        "calls": len(ready),
        "other_bytes": 0,
        "length": length_of(gradients),
        "wrong_gradients": 0,
        "waits": 0,
        "late_calls": 0,
        "step_seconds": free,
        "hooks_left": 0,
        "gradients": gradients,
        "sent": [list(each) for each in ready],
    }


CHECK = Check(
    cases=overlap_cases,
    observe=hooks.observe,
    judge=Behaviour(
        measured,
        *mistakes_of("u15-hooks", observe=hooks.observe),
        summarise=hooks.summarise,
        questions=questions_of("u15-hooks"),
        labels=LABELS
        | {
            "backward_passes": "backward passes through the loss",
            "other_bytes": "calls out of order",
            "wrong_gradients": "gradients that are not the sum of all ranks'",
            "waits": "waits before backward is over",
            "late_calls": "calls made later than possible",
            "step_seconds": "the seconds of the step",
            "hooks_left": "hooks left behind",
        },
    ),
    answers=TRAINERS,
)
