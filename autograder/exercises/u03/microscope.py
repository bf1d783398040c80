"""Check of the student's counter of saved bytes, on programs that it has never seen."""

import random
from typing import Any

import torch

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.exercises.model_answers import mistakes_of, questions_of
from autograder.exercises.u03.shared.counters import COUNTERS
from autograder.observing.u03 import microscope
from autograder.observing.u03.microscope import (
    FREEING,
    NUM_FREED,
    PROGRAMS,
    RAISING,
    program_of,
)
from course_utils.instruments import count_saved_bytes


def microscope_cases(seed: int) -> list[Case]:
    """Every program, in bf16 and fp32, on unequal sizes."""
    rng = random.Random(seed)
    return [
        {
            "program": program,
            "rows": rng.randint(2, 9),
            "columns": 2 * rng.randint(2, 9),
            "width": rng.randrange(3, 19, 2),
            "dtype": dtype,
        }
        for dtype in ("fp32", "bf16")
        for program in PROGRAMS
    ]


def measured(**case: Any) -> dict[str, Any]:
    """What the course's instrument counts for the same program, and that nothing else changes."""
    nothing_changed = dict.fromkeys(
        (
            "hooks_left",
            "swallowed_errors",
            "failed_backwards",
            "lost_graphs",
            "wrong_gradients",
            "list_changed",
            "held",
            "needs_memory",
            "miscounted_freed",
        ),
        0,
    )
    program = program_of(**case)
    if case["program"] == RAISING:
        return {"calls": 1, **nothing_changed}
    with torch.set_grad_enabled(program.is_recorded):
        num_bytes = count_saved_bytes(program.call, *program.parameters).total_bytes
    if case["program"] == FREEING:  # the instrument leaves out what is freed before the call ends
        num_bytes *= NUM_FREED + 1
    return {"calls": 1, **nothing_changed, "bytes": num_bytes}


CHECK = Check(
    cases=microscope_cases,
    observe=microscope.observe,
    judge=Behaviour(
        measured,
        *mistakes_of("u03-microscope", observe=microscope.observe),
        summarise=microscope.summarise,
        questions=questions_of("u03-microscope"),
        labels={
            "calls": "how often `call` runs",
            "hooks_left": "hooks still installed after your function",
            "swallowed_errors": "errors of `call` that your function hides",
            "failed_backwards": "backward passes that fail after your function",
            "lost_graphs": "results that lost their graph",
            "wrong_gradients": "backward passes with wrong gradients",
            "list_changed": "changes of the list `parameters`",
            "held": "results that are still in memory afterwards",
            "needs_memory": "errors where tensors have no memory",
            "miscounted_freed": "wrong counts where storages are freed during the call",
        },
    ),
    fallback="course_utils.instruments.saved_bytes.saved_bytes",
    answers=COUNTERS,
)
