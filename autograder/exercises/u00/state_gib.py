"""Check of the GiB of a model's training state."""

import random
from fractions import Fraction

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import NINE_DIGITS, EqualTo, Mistake


def state_cases(seed: int) -> list[Case]:
    """Models of a million to a trillion parameters, at each byte count that the course meets."""
    rng = random.Random(seed)
    cases: list[Case] = [
        {"num_params": 2**30, "bytes_per_param": 2},
        {"num_params": 7 * 10**9, "bytes_per_param": 16},
    ]
    for bytes_per_param in (1, 2, 4, 16, 18):
        for digits in (6, 8, 10, 12):
            num_params = rng.randint(10**digits // 10, 10**digits)
            cases.append({"num_params": num_params, "bytes_per_param": bytes_per_param})
    return cases


def state_gib(num_params: int, bytes_per_param: int) -> float:
    """The course's own answer; the package itself counts in bytes."""
    return num_params * bytes_per_param / 2**30


def exact_state_gib(num_params: int, bytes_per_param: int) -> float:
    """The same number in exact fractions: three divisions by 1,024."""
    kib = Fraction(num_params * bytes_per_param, 1024)
    return float(kib / 1024 / 1024)


CHECK = Check(
    cases=state_cases,
    reference=state_gib,
    judge=EqualTo(
        exact_state_gib,
        Mistake(
            "That is the number of GB, with 10**9 bytes each. How many bytes has a GiB?",
            lambda params, size: params * size / 10**9,
        ),
        Mistake(
            "That is the number of bytes. Which step takes bytes to GiB?",
            lambda params, size: params * size,
        ),
        Mistake(
            "That is the number of MiB. How many MiB make one GiB?",
            lambda params, size: params * size / 2**20,
        ),
        Mistake(
            "Your answer does not change with bytes_per_param. What does each parameter carry?",
            lambda params, size: params / 2**30,
        ),
        *(
            Mistake(
                f"Your answer is rounded to {words}. What is lost for a model of a million?",
                lambda params, size, places=places: round(params * size / 2**30, places),
            )
            for places, words in ((1, "one place"), (2, "two places"), (3, "three places"))
        ),
        Mistake(
            "You divide by 28, which is what Python makes of 2 ^ 30. How does it write a power?",
            lambda params, size: params * size / 28,
        ),
        Mistake(
            "You divide without a remainder. Is half a GiB nothing?",
            lambda params, size: params * size // 2**30,
        ),
        relative_tolerance=NINE_DIGITS,
    ),
)
