"""Check of the noise scale from the norms of two batches."""

import math
import random
from fractions import Fraction

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.checking.precision import PROMISED
from autograder.exercises.model_answers import mistakes_of


def two_batch_cases(seed: int) -> list[Case]:
    """Near and far batch sizes; |G|**2 below, at and just above zero; a negative trace."""
    rng = random.Random(seed)
    cases = [(5.0, 3.0, 2, 4)]
    for small, factor in ((1, 2), (1, 64), (2, 5), (3, 7), (8, 64), (16, 3), (4, 256)):
        cases += [_norms(rng, small, small * factor, 1) for _ in range(2)]
    for small, big in ((1, 3), (2, 32), (8, 512), (5, 10)):
        cases.append(_norms(rng, small, big, -1))
    for small, big in ((1, 4), (4, 12)):
        least = rng.randint(2, 9)
        cases.append((float(least), least + rng.randint(1, 4) / 4, small, big))
    trace = 8.0 * rng.randint(1, 9)
    cases.append((trace / 4, trace / 8, 4, 8))  # |G|**2 is zero, without any rounding
    for scale, small, big in ((2.0**-50, 2, 8), (2.0**-120, 4, 20)):
        small_norm, big_norm, *_ = _norms(rng, small, big, 1)
        cases.append((scale * small_norm, scale * big_norm, small, big))
    names = ("small_squared_norm", "big_squared_norm", "small_batch_size", "big_batch_size")
    return [dict(zip(names, each, strict=True)) for each in cases]


def _norms(rng: random.Random, small: int, big: int, sign: int) -> tuple[float, float, int, int]:
    """Squared norms for which the estimate of |G|**2 has a given sign and is not near zero."""
    trace, squared_norm = rng.randint(8, 40) * big / 4, sign * rng.randint(3, 9) / 4
    while squared_norm + trace / big <= 0:
        trace += big / 4
    return squared_norm + trace / small, squared_norm + trace / big, small, big


def solved_estimate(
    small_squared_norm: float, big_squared_norm: float, small_batch_size: int, big_batch_size: int
) -> dict[str, float]:
    """The estimates by Cramer's rule on two equations, in fractions.

    ``1 * |G|**2 + (1 / B) * tr(Σ) = |G_B|**2`` for both batch sizes.
    """
    small, big = Fraction(small_squared_norm), Fraction(big_squared_norm)
    one, other = Fraction(1, small_batch_size), Fraction(1, big_batch_size)
    determinant = other - one
    squared_norm, trace = (small * other - one * big) / determinant, (big - small) / determinant
    return {
        "squared_norm": float(squared_norm),
        "trace": float(trace),
        "noise_scale": float(trace / squared_norm) if squared_norm > 0 else math.inf,
    }


CHECK = Check(
    cases=two_batch_cases,
    judge=EqualTo(solved_estimate, *mistakes_of("u08-two-batch"), relative_tolerance=PROMISED),
    fallback="course_utils.formulas.batch_size.estimate_noise",
)
