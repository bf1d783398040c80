"""Check of the GiB of a model's training state."""

import random
from fractions import Fraction

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.checking.precision import PROMISED
from autograder.exercises.model_answers import mistakes_of


def state_cases(seed: int) -> list[Case]:
    """Models of a million to a trillion parameters, at each byte count that the course meets."""
    rng = random.Random(seed)
    models = [rng.randint(10**digits // 10, 10**digits) for digits in (6, 8, 10, 12)]
    return [
        {"num_params": 2**30, "bytes_per_param": 2},
        {"num_params": rng.randint(2, 90) * 10**9, "bytes_per_param": 16},
        *({"num_params": n, "bytes_per_param": size} for n in models for size in (1, 2, 4, 16, 18)),
    ]


def exact_state_gib(num_params: int, bytes_per_param: int) -> float:
    """The number in exact fractions: three divisions by 1,024."""
    kib = Fraction(num_params * bytes_per_param, 1024)
    return float(kib / 1024 / 1024)


CHECK = Check(
    cases=state_cases,
    judge=EqualTo(exact_state_gib, *mistakes_of("u00-state-gib"), relative_tolerance=PROMISED),
)
