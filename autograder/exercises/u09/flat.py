"""Check of gradients summed after the backward pass, in one call for all."""

import functools
from typing import Any

from autograder.checking.exercise_check import Check
from autograder.checking.judges import Behaviour
from autograder.exercises.model_answers import mistakes_of, questions_of
from autograder.exercises.u09.shared import after_backward
from autograder.exercises.u09.shared.after_backward import LABELS, TRAINERS, cases_of
from autograder.observing.u09 import flat

SCENARIOS = (*after_backward.SCENARIOS, "memory")


def measured(**case: Any) -> dict[str, Any]:
    """The gradient of the whole batch, in one call, with one buffer besides the gradients."""
    numbers = {"calls": 1, "overwritten": 0, "sets_at_peak": 2, "sets_afterwards": 1}
    return after_backward.measured(**case) | numbers


CHECK = Check(
    cases=functools.partial(cases_of, SCENARIOS, transposed=("gradients before",)),
    observe=flat.observe,
    judge=Behaviour(
        measured,
        *mistakes_of("u09-flat", observe=flat.observe),
        summarise=flat.summarise,
        scenarios=SCENARIOS,
        questions=questions_of("u09-flat"),
        labels=LABELS
        | {
            "overwritten": "gradients of a first model that a call for a second one changes",
            "sets_at_peak": "sets of gradients at the peak",
            "sets_afterwards": "sets of gradients afterwards",
        },
    ),
    fallback="course_utils.reference.gradient_sync.backward_flat",
    answers=TRAINERS,
)
