"""Check of lists with backward passes in halves, followed by the simulator of pipelines."""

import random

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.checking.mistakes import Symptom
from autograder.exercises.model_answers import mistakes_of, questions_of
from autograder.exercises.u12.shared.right_lists import (
    ANSWERS,
    FEW,
    FORBIDDEN,
    MANY,
    cases_of,
    right_numbers,
)
from autograder.observing.u12 import lists
from course_utils.instruments import simulate_pipeline
from course_utils.reference.pipeline_schedules import greedy_halves


def zero_cases(seed: int) -> list[Case]:
    """As many micro-batches as stages, more, fewer; one stage, one micro-batch."""
    return cases_of((1, 2), random.Random(seed))


def measured(scenario: str, num_stages: int, num_micro_batches: int) -> dict[str, int]:
    """The later of two bounds, and p micro-batches in flight.

    The last stage begins after the way down, and has F, I and W of each micro-batch to do. Or: it
    does all F and I at once, then the last gradient comes all the way up, and stage 0 does its W.
    """
    down = up = num_stages - 1
    last_stage = down + 3 * num_micro_batches
    last_gradient = down + 2 * num_micro_batches + up + 1
    held = [min(num_stages, num_micro_batches)] * num_stages
    return right_numbers(num_stages, max(last_stage, last_gradient), held)


def greedy(scenario: str, num_stages: int, num_micro_batches: int) -> dict[str, int]:
    """I, or else F while there is room, or else W."""
    schedule = greedy_halves(num_stages, num_micro_batches, most_in_flight=num_stages)
    return {"seconds": int(simulate_pipeline(schedule, num_micro_batches).seconds)}


GREEDY = Symptom(
    "Every stage takes what is best at the moment: I, or else F, or else W. Which room does an F "
    "take that comes earlier than anybody needs it, and which W must then come early too?",
    greedy,
)

CHECK = Check(
    cases=zero_cases,
    observe=lists.observe,
    judge=Behaviour(
        measured,
        *mistakes_of("u12-zero", observe=lists.observe),
        GREEDY,
        scenarios=(MANY, FEW),
        summarise=lists.summarise,
        labels=lists.LABELS,
        questions=questions_of("u12-zero"),
    ),
    fallback="course_utils.reference.pipeline_schedules.zero_bubble",
    answers=ANSWERS,
    forbidden_modules=FORBIDDEN,
)
