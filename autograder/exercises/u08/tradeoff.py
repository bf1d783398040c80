"""Check of the hyperbola that trades steps against examples."""

import math
import random
from collections.abc import Callable

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import NINE_DIGITS, EqualTo, Mistake
from course_utils.formulas.batch_size import steps_and_examples


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


def _with_steps(steps: Callable[[float, float, float], float]) -> Callable[..., dict[str, float]]:
    """Wrong steps, and the examples that follow from them."""

    def formula(least: float, critical: float, size: float) -> dict[str, float]:
        count = steps(least, critical, size)
        return {"steps": count, "examples": size * count}

    return formula


CHECK = Check(
    cases=tradeoff_cases,
    reference=steps_and_examples,
    judge=EqualTo(
        on_the_hyperbola,
        Mistake(
            "Your examples are the fewest, whatever the batch. How many steps of how many examples "
            "did you take?",
            lambda least, critical, size: {"examples": least * critical},
        ),
        Mistake(
            "Your examples are steps of the critical batch size. How many examples does each step "
            "take?",
            lambda least, critical, size: {
                "examples": critical * steps_and_examples(least, critical, size)["steps"]
            },
        ),
        Mistake(
            "Your examples are as few as steps. By which number, with E_min, do you multiply?",
            lambda least, critical, size: {"examples": least * (1 + size / critical)},
        ),
        Mistake(
            "Your examples are those of the fewest steps. Is that how many steps this batch takes?",
            lambda least, critical, size: {"examples": least * size},
        ),
        Mistake(
            "Your steps are those of perfect scaling. Below which number do they never come, "
            "however large the batch is?",
            _with_steps(lambda least, critical, size: least * critical / size),
        ),
        Mistake(
            "Your line has a corner at the critical batch size. How many steps does the hyperbola "
            "give there, the fewest or more?",
            _with_steps(lambda least, critical, size: least * max(1, critical / size)),
        ),
        Mistake(
            "Your steps grow with the batch. Which of B and B_c belongs below the other?",
            _with_steps(lambda least, critical, size: least * (1 + size / critical)),
        ),
        Mistake(
            "You have the fewest steps for every batch. What do you get for S / S_min when you "
            "put E = B S into the hyperbola?",
            _with_steps(lambda least, critical, size: least),
        ),
        Mistake(
            "Your hyperbola has a root in it. What remains of the product of the two brackets "
            "when E = B S stands in it, and what cancels?",
            _with_steps(lambda least, critical, size: least * (1 + math.sqrt(critical / size))),
        ),
        relative_tolerance=NINE_DIGITS,
    ),
)
