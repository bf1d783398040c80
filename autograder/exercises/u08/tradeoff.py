"""Check of the hyperbola that trades steps against examples."""

import random

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.checking.precision import PROMISED
from autograder.exercises.model_answers import mistakes_of


def tradeoff_cases(seed: int) -> list[Case]:
    """Batches at, far below and far above the critical size, which is often fractional."""
    rng = random.Random(seed)
    names = ("min_steps", "critical_batch_size", "batch_size")
    cases = [(100.0, 30.0, 10)]
    for power in (-10, -7, -4, -2, -1, 1, 2, 4, 7, 10):
        for _ in range(2):
            batch_size = rng.randint(1, 999)
            critical = round(batch_size * 2**-power * rng.uniform(0.8, 1.2), 4)
            cases.append((float(rng.randint(5, 90_000)), critical, batch_size))
    sizes = [rng.randint(2, 5000) for _ in range(3)]
    cases += [(float(rng.randint(5, 900)), float(size), size) for size in sizes]
    return [dict(zip(names, each, strict=True)) for each in cases]


def on_the_hyperbola(
    min_steps: float, critical_batch_size: float, batch_size: int
) -> dict[str, float]:
    """Steps and examples by bisection: where E = B S meets the hyperbola, with S > S_min."""

    def is_beyond(excess: float) -> bool:
        """Whether (S / S_min - 1) (E / E_min - 1) >= 1 for S = S_min (1 + excess)."""
        return excess * (batch_size * (1 + excess) / critical_batch_size - 1) >= 1

    low, high = 0.0, 1.0
    while not is_beyond(high):
        low, high = high, 2 * high
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (low, middle) if is_beyond(middle) else (middle, high)
    steps = min_steps * (1 + high)
    return {"steps": steps, "examples": batch_size * steps}


CHECK = Check(
    cases=tradeoff_cases,
    judge=EqualTo(on_the_hyperbola, *mistakes_of("u08-tradeoff"), relative_tolerance=PROMISED),
    fallback="course_utils.formulas.batch_size.steps_and_examples",
)
