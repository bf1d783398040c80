"""Check of gradients summed after the backward pass, in one call for each parameter."""

import functools

from autograder.checking.exercise_check import Check
from autograder.checking.judges import Behaviour
from autograder.exercises.model_answers import mistakes_of, questions_of
from autograder.exercises.u09.shared.after_backward import (
    LABELS,
    SCENARIOS,
    TRAINERS,
    cases_of,
    measured,
)
from autograder.observing.u09 import after_backward

CHECK = Check(
    cases=functools.partial(cases_of, SCENARIOS),
    observe=after_backward.observe,
    judge=Behaviour(
        measured,
        *mistakes_of("u09-each", observe=after_backward.observe),
        summarise=after_backward.summarise,
        scenarios=SCENARIOS,
        questions=questions_of("u09-each"),
        labels=LABELS,
    ),
    fallback="course_utils.reference.gradient_sync.backward_each",
    answers=TRAINERS,
)
