"""Check of the GPU-days of a run."""

import random
from fractions import Fraction

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import NINE_DIGITS, EqualTo, Mistake

SECONDS_PER_DAY = 86_400


def gpu_days_cases(seed: int) -> list[Case]:
    """Llama-3-8B as on the slide, and runs from a laptop's size to the largest."""
    rng = random.Random(seed)
    names = ("flops_per_token", "num_tokens", "peak_flops_per_second", "utilisation")
    worked = (1000, SECONDS_PER_DAY, 2000, 0.5)
    llama = (51_470_401_536, 15 * 10**12, 312 * 10**12, 0.4)
    others = [
        (
            rng.randint(10**9, 10**13),
            rng.randint(10**digits, 10 ** (digits + 1)),
            rng.choice((312, 989, 2250)) * 10**12,
            rng.randint(15, 70) / 100,
        )
        for digits in (8, 9, 10, 11, 12, 13)
        for _ in range(4)
    ]
    return [dict(zip(names, each, strict=True)) for each in (worked, llama, *others)]


def exact_gpu_days(
    flops_per_token: int, num_tokens: int, peak_flops_per_second: int, utilisation: float
) -> float:
    """GPU-days in exact fractions: the oracle."""
    seconds = Fraction(flops_per_token * num_tokens) / (
        peak_flops_per_second * Fraction(utilisation)
    )
    return float(seconds / SECONDS_PER_DAY)


def gpu_days(
    flops_per_token: int, num_tokens: int, peak_flops_per_second: int, utilisation: float
) -> float:
    """The course's own answer: FLOPs over the achieved rate, in days."""
    return flops_per_token * num_tokens / (peak_flops_per_second * utilisation) / SECONDS_PER_DAY


CHECK = Check(
    cases=gpu_days_cases,
    reference=gpu_days,
    judge=EqualTo(
        exact_gpu_days,
        Mistake(
            "That is a device at its peak. What does the utilisation say about the rate?",
            lambda flops, tokens, peak, share: flops * tokens / peak / SECONDS_PER_DAY,
        ),
        Mistake(
            "You multiply by the utilisation. Does a device that idles finish earlier?",
            lambda flops, tokens, peak, share: flops * tokens / peak * share / SECONDS_PER_DAY,
        ),
        Mistake(
            "Those are seconds. How many are in a day?",
            lambda flops, tokens, peak, share: flops * tokens / (peak * share),
        ),
        Mistake(
            "Those are hours. How many are in a day?",
            lambda flops, tokens, peak, share: flops * tokens / (peak * share) / 3600,
        ),
        Mistake(
            "That is the time of one token. How many tokens does the run see?",
            lambda flops, tokens, peak, share: flops / (peak * share) / SECONDS_PER_DAY,
        ),
        Mistake(
            "You count training three times again. Which passes are in flops_per_token already?",
            lambda flops, tokens, peak, share: (
                3 * flops * tokens / (peak * share) / SECONDS_PER_DAY
            ),
        ),
        relative_tolerance=NINE_DIGITS,
    ),
)
