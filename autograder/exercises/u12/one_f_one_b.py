"""Check of the lists of 1F1B, followed by the simulator of pipelines."""

import random

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.exercises.model_answers import mistakes_of, questions_of
from autograder.exercises.u12.shared.right_lists import (
    ANSWERS,
    FEW,
    FORBIDDEN,
    MANY,
    cases_of,
    fewest_seconds,
    right_numbers,
)
from autograder.observing.u12 import lists


def schedule_cases(seed: int) -> list[Case]:
    """As many micro-batches as stages, more, fewer; one stage, one micro-batch."""
    return cases_of((2, 2), random.Random(seed))


def measured(scenario: str, num_stages: int, num_micro_batches: int) -> dict[str, int]:
    """The fewest seconds, and on stage s as many micro-batches as are below it and on it."""
    held = [min(num_micro_batches, num_stages - stage) for stage in range(num_stages)]
    return right_numbers(num_stages, fewest_seconds(num_stages, num_micro_batches), held)


CHECK = Check(
    cases=schedule_cases,
    observe=lists.observe,
    judge=Behaviour(
        measured,
        *mistakes_of("u12-one-f-one-b", observe=lists.observe),
        scenarios=(MANY, FEW),
        summarise=lists.summarise,
        labels=lists.LABELS,
        questions=questions_of("u12-one-f-one-b"),
    ),
    fallback="course_utils.reference.pipeline_schedules.one_forward_one_backward",
    answers=ANSWERS,
    forbidden_modules=FORBIDDEN,
)
