"""Check of days, device hours and cost of a run."""

import random
from fractions import Fraction

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.checking.precision import PROMISED
from autograder.exercises.model_answers import mistakes_of

NAMES = ("num_tokens", "tokens_per_step", "step_seconds", "num_devices", "usd_per_device_hour")
WHOLE_DAY = 24


def run_cases(seed: int) -> list[Case]:
    """One device and many; tokens that fill the last step and that do not."""
    rng = random.Random(seed)
    runs = [(86_400 * 10**6, 10**6, 2, 4, 1.5), (10**12, 4_194_304, rng.randint(20, 60), 1, 2.0)]
    for number in range(20):
        per_step = rng.randint(1, 64) * 2**18
        steps = rng.randint(1000, 10**5)
        rest = rng.randint(1, per_step // 2) if number % 2 else 0
        price = rng.randint(4, 20) / 4
        runs.append(
            (per_step * steps + rest, per_step, rng.randint(1, 90), rng.choice((2, 8, 512)), price)
        )
    return [dict(zip(NAMES, each, strict=True)) for each in runs]


def counted(
    num_tokens: int,
    tokens_per_step: int,
    step_seconds: int,
    num_devices: int,
    usd_per_device_hour: float,
) -> dict[str, float]:
    """In whole steps and in fractions."""
    whole, rest = divmod(num_tokens, tokens_per_step)
    hours = Fraction((whole + (rest > 0)) * step_seconds, 60 * 60)
    price = Fraction(usd_per_device_hour)
    return {
        "days": float(hours / WHOLE_DAY),
        "device_hours": float(hours * num_devices),
        "usd": float(hours * num_devices * price),
    }


CHECK = Check(
    cases=run_cases,
    judge=EqualTo(counted, *mistakes_of("u14-days"), relative_tolerance=PROMISED),
    fallback="course_utils.formulas.step_time.days_and_cost",
)
