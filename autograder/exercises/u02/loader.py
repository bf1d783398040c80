"""Check of the time of an epoch whose batches are loaded by workers."""

import random

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.checking.precision import PROMISED
from autograder.exercises.model_answers import mistakes_of

NAMES = ("load_ms", "step_ms", "num_workers", "num_batches")


def epoch_cases(seed: int) -> list[Case]:
    """Loading faster than a step, slower, and hidden by some workers; batches left over."""
    rng = random.Random(seed)
    sizes = [(3, 2, 1, 3), (7, 2, 3, rng.randint(4, 40)), (5, 2, 2, rng.randint(4, 40))]
    sizes += [(rng.randint(1, 9), rng.randint(10, 50), 1, rng.randint(1, 30)) for _ in range(4)]
    sizes += [(rng.randint(50, 99), rng.randint(3, 9), w, rng.randint(5, 60)) for w in range(1, 7)]
    for _ in range(6):  # the step is a little longer or shorter than a worker's share
        workers, step = rng.randint(2, 6), rng.randint(5, 20)
        load = workers * step + rng.choice((-2, -1, 0, 1, 2))
        sizes.append((load, step, workers, rng.randint(10, 50)))
    sizes += [(rng.randint(20, 50), rng.randint(1, 50), 9, rng.randint(1, 8)) for _ in range(3)]
    sizes += [(120, 40, workers, rng.randint(50, 150)) for workers in (1, 2, 4)]
    return [dict(zip(NAMES, each, strict=True)) for each in sizes]


def simulated(load_ms: int, step_ms: int, num_workers: int, num_batches: int) -> int:
    """Each worker makes its batches one after the other; steps take them in order."""
    free, now = [0] * num_workers, 0
    for batch in range(num_batches):
        free[batch % num_workers] += load_ms
        now = max(now, free[batch % num_workers]) + step_ms
    return now


CHECK = Check(
    cases=epoch_cases,
    judge=EqualTo(simulated, *mistakes_of("u02-loader"), relative_tolerance=PROMISED),
    fallback="course_utils.formulas.roofline.epoch_seconds",
    answers=("course_utils.formulas.roofline",),
)
