"""Check of the lists of GPipe, followed by the simulator of pipelines."""

import random

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.exercises.model_answers import mistakes_of, questions_of
from autograder.exercises.u12.shared.right_lists import (
    ANSWERS,
    FORBIDDEN,
    fewest_seconds,
    right_numbers,
)
from autograder.observing.u12 import lists

NAMES = ("num_stages", "num_micro_batches")


def gpipe_cases(seed: int) -> list[Case]:
    """Few micro-batches and many; one stage, one micro-batch."""
    rng = random.Random(seed)
    num_stages = rng.randint(3, 7)
    sizes = [(1, 2), (num_stages, num_stages), (num_stages, rng.randint(8, 16))]
    sizes += [(1, rng.randint(1, 20)), (1, rng.randint(1, 20)), (rng.randint(2, 12), 1)]
    sizes.append((num_stages, rng.randint(2, num_stages - 1)))
    sizes += [(rng.randint(2, 7), rng.randint(2, 16)) for _ in range(15)]
    return [dict(zip(NAMES, each, strict=True)) for each in sizes]


def measured(num_stages: int, num_micro_batches: int) -> dict[str, int]:
    """All micro-batches in flight on every stage, and no forward pass after a backward one."""
    seconds = fewest_seconds(num_stages, num_micro_batches)
    held = [num_micro_batches] * num_stages
    return right_numbers(num_stages, seconds, held, late_forwards=0)


CHECK = Check(
    cases=gpipe_cases,
    observe=lists.observe,
    judge=Behaviour(
        measured,
        *mistakes_of("u12-gpipe", observe=lists.observe),
        summarise=lists.summarise,
        labels=lists.LABELS,
        questions=questions_of("u12-gpipe"),
    ),
    fallback="course_utils.reference.pipeline_schedules.gpipe",
    answers=ANSWERS,
    forbidden_modules=FORBIDDEN,
)
