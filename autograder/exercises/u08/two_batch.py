"""Check of the noise scale from the norms of two batches."""

import math
import random
from collections.abc import Callable
from fractions import Fraction

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import NINE_DIGITS, EqualTo, Mistake
from course_utils.formulas.batch_size import estimate_noise

Estimate = dict[str, float]


def two_batch_cases(seed: int) -> list[Case]:
    """Near and far batch sizes; a negative estimate of |G|**2; a negative trace."""
    rng = random.Random(seed)
    cases = [(5.0, 3.0, 2, 4)]
    for small, factor in ((1, 2), (1, 64), (2, 5), (3, 7), (8, 64), (16, 3), (4, 256)):
        cases += [_norms(rng, small, small * factor, 1) for _ in range(2)]
    for small, big in ((1, 3), (2, 32), (8, 512), (5, 10)):
        cases.append(_norms(rng, small, big, -1))
    for small, big in ((1, 4), (4, 12)):
        least = rng.randint(2, 9)
        cases.append((float(least), least + rng.randint(1, 4) / 4, small, big))
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
) -> Estimate:
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


def _estimate(squared_norm: float, trace: float, *, is_guarded: bool = True) -> Estimate:
    ratio = trace / squared_norm if squared_norm > 0 or not is_guarded else math.inf
    return {"squared_norm": squared_norm, "trace": trace, "noise_scale": ratio}


def _other_trace(change: Callable[[float, int, int], float]) -> Callable[..., Estimate]:
    """Another trace from the difference of the norms, and the ratio that follows."""

    def formula(x: float, y: float, b: int, big: int) -> Estimate:
        return _estimate(estimate_noise(x, y, b, big)["squared_norm"], change(x - y, b, big))

    return formula


def _other_trace_and_norm(change: Callable[[float, int, int], float]) -> Callable[..., Estimate]:
    """Also the |G|**2 that follows from that trace in the large batch's equation."""

    def formula(x: float, y: float, b: int, big: int) -> Estimate:
        trace = change(x - y, b, big)
        return _estimate(y - trace / big, trace)

    return formula


def _wrong_trace(hint: str, change: Callable[[float, int, int], float]) -> list[Mistake]:
    return [Mistake(hint, made(change)) for made in (_other_trace, _other_trace_and_norm)]


def _at_least_zero(x: float, y: float, b: int, big: int) -> Estimate:
    right = estimate_noise(x, y, b, big)
    return _estimate(max(0.0, right["squared_norm"]), max(0.0, right["trace"]))


def _never_negative(x: float, y: float, b: int, big: int) -> Estimate:
    right = estimate_noise(x, y, b, big)
    return {"noise_scale": right["noise_scale"] if right["trace"] > 0 else math.inf}


def _from_small(x: float, y: float, b: int, big: int) -> Estimate:
    trace = estimate_noise(x, y, b, big)["trace"]
    return _estimate(x - trace / big, trace)


def _upside_down(x: float, y: float, b: int, big: int) -> Estimate:
    right = estimate_noise(x, y, b, big)
    return {"noise_scale": right["squared_norm"] / right["trace"]}


def _unguarded(x: float, y: float, b: int, big: int) -> Estimate:
    right = estimate_noise(x, y, b, big)
    return _estimate(right["squared_norm"], right["trace"], is_guarded=False)


CHECK = Check(
    cases=two_batch_cases,
    reference=estimate_noise,
    judge=EqualTo(
        solved_estimate,
        Mistake(
            "You take the large batch's squared norm for |G|². What does the line above the "
            "exercise add to |G|², however large the batch is?",
            lambda x, y, b, big: _estimate(y, estimate_noise(x, y, b, big)["trace"]),
        ),
        *_wrong_trace(
            "Your trace is the bare difference of the two norms. By how much do 1/b and 1/B "
            "differ?",
            lambda gap, b, big: gap,
        ),
        *_wrong_trace(
            "You multiply the difference of the norms by the small batch size, as if the large "
            "batch had no noise. What is left over when you subtract the two equations?",
            lambda gap, b, big: gap * b,
        ),
        *_wrong_trace(
            "You multiply the difference of the norms by that of the batch sizes. In which form "
            "do the sizes stand in the two equations?",
            lambda gap, b, big: gap * (big - b),
        ),
        *_wrong_trace(
            "You divide the difference of the norms by that of the batch sizes. In which form do "
            "the sizes stand in the two equations?",
            lambda gap, b, big: gap / (big - b),
        ),
        Mistake(
            "Your noise scale has lost its sign where the trace is negative. What does the "
            "exercise say of estimates that are negative by chance?",
            lambda x, y, b, big: {"noise_scale": abs(estimate_noise(x, y, b, big)["noise_scale"])},
        ),
        *_wrong_trace(
            "Your trace has the other sign. Which of the two batches is the noisier, and which "
            "norm is the larger then?",
            lambda gap, b, big: -gap / (1 / b - 1 / big),
        ),
        Mistake(
            "You take the noise of the large batch from the norm of the small one. Which of the "
            "two equations has 1/B in it?",
            _from_small,
        ),
        Mistake(
            "You square the norms once more. What do the names of the arguments say?",
            lambda x, y, b, big: estimate_noise(x * x, y * y, b, big),
        ),
        Mistake(
            "You make zeros of negative estimates. Would they still be right on average?",
            _at_least_zero,
        ),
        Mistake(
            "Your noise scale is infinite where the trace is negative, too. Where alone does the "
            "exercise ask for that?",
            _never_negative,
        ),
        Mistake(
            "Your batch sizes weigh each the other's norm. Multiply each equation by its own size: "
            "what do you subtract?",
            lambda x, y, b, big: {"squared_norm": (big * x - b * y) / (big - b)},
        ),
        Mistake(
            "Your |G|² is a multiple of what is wanted. How many times does |G|² stand in the "
            "difference of your two equations?",
            lambda x, y, b, big: {"squared_norm": big * y - b * x},
        ),
        Mistake(
            "Your noise scale is negative or finite where the estimate of |G|² is not positive. "
            "What does the exercise ask for there?",
            _unguarded,
        ),
        Mistake(
            "Your noise scale stands on its head. Should more noise make it larger or smaller?",
            _upside_down,
        ),
        relative_tolerance=NINE_DIGITS,
    ),
)
