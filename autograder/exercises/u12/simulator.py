"""Check of a simulator of pipelines, against the course's: orders of every kind, deadlocks."""

import random

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.exercises.model_answers import mistakes_of
from course_utils.configs import Action
from course_utils.instruments import PassSeconds, simulate_pipeline
from course_utils.reference.pipeline_schedules import gpipe, one_forward_one_backward

Lists = list[list[Action]]
STUCK: Lists = [
    [("F", 0, 0), ("B", 0, 0), ("F", 1, 0), ("B", 1, 0)],
    [("F", 0, 0), ("F", 1, 0), ("B", 0, 0), ("B", 1, 0)],
]


def simulator_cases(seed: int) -> list[Case]:
    """GPipe and 1F1B, orders at random that can be followed, and some that cannot."""
    rng = random.Random(seed)
    one, two = rng.randint(1, 30), rng.randint(1, 30)
    schedules: list[tuple[Lists, int, int]] = [(gpipe(2, 2), 1, 2), (STUCK, one, two)]
    schedules += [
        (one_forward_one_backward(3, 5), 1, two),
        ([[("B", 0, 0), ("F", 0, 0)]], one, one),
    ]
    schedules += [(one_forward_one_backward(3, 4)[::-1], one, two), (gpipe(1, 3), 4 * one, one)]
    for number in range(16):
        seconds = rng.randint(1, 5), rng.randint(1, 9)
        num_stages, m = rng.randint(2, 4), rng.randint(2, 4)
        schedule = [_followed, _shuffled][number % 4 == 3](num_stages, m, rng)
        schedules.append((schedule, *seconds))
    names = ("schedule", "forward_seconds", "backward_seconds")
    return [dict(zip(names, each, strict=True)) for each in schedules]


def _followed(num_stages: int, num_micro_batches: int, rng: random.Random) -> Lists:
    """Lists of actions that were done in some order that is possible."""
    schedule: Lists = [[] for _ in range(num_stages)]
    steps = [(kind, stage) for kind in "FB" for stage in range(num_stages)]
    steps[num_stages:] = reversed(steps[num_stages:])
    position = [0] * num_micro_batches
    while left := [k for k in range(num_micro_batches) if position[k] < len(steps)]:
        k = rng.choice(left)
        kind, stage = steps[position[k]]
        schedule[stage].append((kind, k, 0))
        position[k] += 1
    return schedule


def _shuffled(num_stages: int, num_micro_batches: int, rng: random.Random) -> Lists:
    return [rng.sample(each, len(each)) for each in gpipe(num_stages, num_micro_batches)]


def simulated(schedule: Lists, forward_seconds: int, backward_seconds: int) -> int:
    """What the course's simulator says."""
    seconds = PassSeconds(
        forward=forward_seconds, input_gradient=backward_seconds, weight_gradient=0
    )
    run = simulate_pipeline(schedule, len(schedule[0]) // 2, seconds=seconds)
    return -1 if run.waiting else int(run.seconds)


CHECK = Check(
    cases=simulator_cases,
    judge=EqualTo(simulated, *mistakes_of("u12-simulator")),
    answers=("course_utils.instruments.pipeline",),
)
