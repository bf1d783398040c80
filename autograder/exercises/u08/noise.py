"""Checks of the noise scale: from all gradients, and from the norms of two batches."""

import itertools
import math
import random
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import torch

from autograder.checking.check import Case, Check
from autograder.checking.judges import EqualTo, Mistake
from course_utils.formulas.batch_size import estimate_noise
from course_utils.reference.batch_experiment import noise_scale

Rows = list[list[float]]

# Sums in another order move the last digits, and differences magnify that a little.
ROUNDING = 1e-9
NEARLY_ZERO = 1e-8  # for torch.allclose
BATCH_SIZE = 2  # of the batches that the measurement draws


def noise_scale_cases(seed: int) -> list[Case]:
    """Few and more examples, equal ones, ones that cancel, that are zero, that are tiny."""
    rng = random.Random(seed)
    cases: list[Rows] = [[[3.0, 1.0], [1.0, -1.0]]]
    cases += [_around_a_mean(rng, n, p) for n in (2, 3, 4, 5, 7) for p in (2, 3, 5)]
    cases += [_cancelling(rng, n, p) for n, p in ((2, 3), (3, 2), (5, 4))]
    cases += [[_row(rng, p, 1)] * n for n, p in ((2, 3), (4, 2))]
    cases += [[[0.0] * 3] * 2, *(_tiny(_around_a_mean(rng, n, 3)) for n in (2, 4))]
    return [{"gradients": rows} for rows in cases]


def _row(rng: random.Random, num_params: int, low: int) -> list[float]:
    return [float(rng.randint(low, 6)) for _ in range(num_params)]


def _around_a_mean(rng: random.Random, num_examples: int, num_params: int) -> Rows:
    """Examples that differ, and whose sum is not zero."""
    rows = [_row(rng, num_params, -4) for _ in range(num_examples)]
    rows[0][0], rows[1][0] = 7.0, 3.0
    if sum(row[0] for row in rows) == 0:
        rows[0][0] += 1
    return rows


def _tiny(rows: Rows) -> Rows:
    return [[float(f"{each}e-9") for each in row] for row in rows]


def _cancelling(rng: random.Random, num_examples: int, num_params: int) -> Rows:
    rows = [_row(rng, num_params, 1) for _ in range(num_examples - 1)]
    return [*rows, [-sum(column) for column in zip(*rows, strict=True)]]


def enumerated_noise_scale(gradients: Rows) -> float:
    """The same number without a covariance: from every batch of two that can be drawn.

    The mean squared distance of a batch's gradient from that of all, times the batch size, over
    the squared norm of the latter; in fractions.
    """
    whole = _mean(gradients)
    batches = list(itertools.product(gradients, repeat=BATCH_SIZE))
    distances = (
        sum((one - other) ** 2 for one, other in zip(_mean(batch), whole, strict=True))
        for batch in batches
    )
    squared_norm = sum(each**2 for each in whole)
    if squared_norm == 0:
        return math.inf
    return float(BATCH_SIZE * sum(distances) / len(batches) / squared_norm)


def _mean(rows: Any) -> list[Fraction]:
    return [
        sum(map(Fraction, column), Fraction()) / len(rows) for column in zip(*rows, strict=True)
    ]


def give_gradients(answer: Any, case: Case) -> object:
    """Call the student's function with the gradients of a case as a float64 matrix."""
    return answer(torch.tensor(case["gradients"], dtype=torch.float64))


class _Parts:
    """What wrong formulas are made of."""

    def __init__(self, rows: Rows) -> None:
        matrix = torch.tensor(rows, dtype=torch.float64)
        self.num_examples, self.num_params = matrix.shape
        mean = matrix.mean(0)
        self.squared_norm = mean.square().sum().item()
        self.largest = mean.abs().max().item()
        self.trace = (matrix - mean).square().sum(1).mean().item()
        self.deviations = (matrix - mean).square().mean(0).sqrt().sum().item()
        self.mean_of_squares = matrix.square().sum(1).mean().item()
        self.mean_of_norms = matrix.square().sum(1).sqrt().mean().item()


def _of(formula: Callable[[_Parts], float]) -> Callable[[Rows], float]:
    """A formula of the parts; infinite where it divides by zero, as torch does."""

    def wrong(rows: Rows) -> float:
        try:
            return formula(_Parts(rows))
        except ZeroDivisionError:
            return math.inf

    return wrong


def _turned(rows: Rows) -> Rows:
    return [list(column) for column in zip(*rows, strict=True)]


NOISE_SCALE = Check(
    cases=noise_scale_cases,
    observe=give_gradients,
    reference=noise_scale,
    judge=EqualTo(
        enumerated_noise_scale,
        Mistake(
            "Where the mean gradient is zero you say that there is no noise. How many examples "
            "would a batch need there until gradient and noise are equally large?",
            _of(lambda p: p.trace / p.squared_norm if p.squared_norm else 0.0),
        ),
        Mistake(
            "Where all gradients are zero your answer is not a number. What does the exercise want "
            "where G is zero?",
            _of(lambda p: p.trace / p.squared_norm if p.trace or p.squared_norm else math.nan),
        ),
        Mistake(
            "You take a small G for zero. How large are the gradients of this case, and is their "
            "noise any larger?",
            _of(lambda p: p.trace / p.squared_norm if p.largest > NEARLY_ZERO else math.inf),
        ),
        Mistake(
            "You divide by n − 1, as for a sample from something larger. Are these examples a "
            "sample here, or all the data?",
            _of(lambda p: p.trace * p.num_examples / (p.num_examples - 1) / p.squared_norm),
        ),
        Mistake(
            "Your noise is the mean squared length of the gradients themselves. From where is the "
            "noise of an example measured?",
            _of(lambda p: p.mean_of_squares / p.squared_norm),
        ),
        Mistake(
            "You divide by |G|, not by its square. Which unit has tr(Σ) if a gradient has one?",
            _of(lambda p: p.trace / math.sqrt(p.squared_norm)),
        ),
        Mistake(
            "Your tr(Σ) is a mean over the parameters. How many numbers of the diagonal does a "
            "trace add up?",
            _of(lambda p: p.trace / p.num_params / p.squared_norm),
        ),
        Mistake(
            "You add standard deviations. What stands on the diagonal of a covariance?",
            _of(lambda p: p.deviations / p.squared_norm),
        ),
        Mistake(
            "Your tr(Σ) is a sum over the examples. Does the noise of one example grow with the "
            "number of others?",
            _of(lambda p: p.trace * p.num_examples / p.squared_norm),
        ),
        Mistake(
            "You divide by the mean squared length of single gradients. Is that the length of "
            "their mean?",
            _of(lambda p: p.trace / p.mean_of_squares),
        ),
        Mistake(
            "You divide by the square of a mean of lengths. Which comes first in |G|, the mean or "
            "the length?",
            _of(lambda p: p.trace / p.mean_of_norms**2),
        ),
        Mistake(
            "You average along the rows, over the parameters of one example. Along which side of "
            "the matrix do the examples lie?",
            lambda rows: _of(lambda p: p.trace / p.squared_norm)(_turned(rows)),
        ),
        Mistake(
            "Your fraction stands on its head. Should more noise make it larger or smaller?",
            _of(lambda p: p.squared_norm / p.trace),
        ),
        Mistake(
            "That is the root of the noise scale. Which squares does the exercise ask for?",
            _of(lambda p: math.sqrt(p.trace / p.squared_norm)),
        ),
        relative_tolerance=ROUNDING,
    ),
)


def two_batch_cases(seed: int) -> list[Case]:
    """Near and far batch sizes; an estimate of |G|**2 that is not positive; a negative trace."""
    rng = random.Random(seed)
    cases = [(5.0, 3.0, 2, 4)]
    for small, factor in ((1, 2), (1, 64), (2, 5), (3, 7), (8, 64), (16, 3), (4, 256)):
        cases += [_norms(rng, small, small * factor, sign) for sign in (1, 1)]
    for small, big in ((1, 3), (2, 32), (8, 512), (5, 10)):
        cases.append(_norms(rng, small, big, -1))
    for small, big in ((1, 4), (4, 12)):
        least = rng.randint(2, 9)
        cases.append((float(least), least + rng.randint(1, 4) / 4, small, big))
    names = ("small_squared_norm", "big_squared_norm", "small_batch_size", "big_batch_size")
    return [dict(zip(names, each, strict=True)) for each in cases]


def _norms(rng: random.Random, small: int, big: int, sign: int) -> tuple[float, float, int, int]:
    """Squared norms with which the estimate of |G|**2 has a sign, far enough from zero."""
    trace, squared_norm = rng.randint(8, 40) * big / 4, sign * rng.randint(3, 9) / 4
    while squared_norm + trace / big <= 0:
        trace += big / 4
    return squared_norm + trace / small, squared_norm + trace / big, small, big


def solved_estimate(
    small_squared_norm: float, big_squared_norm: float, small_batch_size: int, big_batch_size: int
) -> dict[str, float]:
    """The same numbers by Cramer's rule on two equations, in fractions.

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


Estimate = dict[str, float]


def _estimate(squared_norm: float, trace: float, *, is_guarded: bool = True) -> Estimate:
    ratio = trace / squared_norm if squared_norm > 0 or not is_guarded else math.inf
    return {"squared_norm": squared_norm, "trace": trace, "noise_scale": ratio}


def _biased(x: float, y: float, b: int, big: int) -> Estimate:
    right = estimate_noise(x, y, b, big)
    return _estimate(y, right["trace"])


def _other_trace(change: Callable[[float, int, int], float]) -> Callable[..., Estimate]:
    """A trace made in another way from the difference of the norms, and the ratio that follows."""

    def formula(x: float, y: float, b: int, big: int) -> Estimate:
        return _estimate(estimate_noise(x, y, b, big)["squared_norm"], change(x - y, b, big))

    return formula


def _following(change: Callable[[float, int, int], float]) -> Callable[..., Estimate]:
    """The same, and the |G|**2 that follows from that trace in the large batch's equation."""

    def formula(x: float, y: float, b: int, big: int) -> Estimate:
        trace = change(x - y, b, big)
        return _estimate(y - trace / big, trace)

    return formula


def _of_trace(hint: str, change: Callable[[float, int, int], float]) -> list[Mistake]:
    return [Mistake(hint, made(change)) for made in (_other_trace, _following)]


def _at_least_zero(x: float, y: float, b: int, big: int) -> Estimate:
    right = estimate_noise(x, y, b, big)
    return _estimate(max(0.0, right["squared_norm"]), max(0.0, right["trace"]))


def _never_negative(x: float, y: float, b: int, big: int) -> Estimate:
    right = estimate_noise(x, y, b, big)
    return {"noise_scale": right["noise_scale"] if right["trace"] > 0 else math.inf}


def _without_sign(x: float, y: float, b: int, big: int) -> Estimate:
    return {"noise_scale": abs(estimate_noise(x, y, b, big)["noise_scale"])}


def _from_small(x: float, y: float, b: int, big: int) -> Estimate:
    trace = estimate_noise(x, y, b, big)["trace"]
    return _estimate(x - trace / big, trace)


def _upside_down(x: float, y: float, b: int, big: int) -> Estimate:
    right = estimate_noise(x, y, b, big)
    return {"noise_scale": right["squared_norm"] / right["trace"]}


def _unguarded(x: float, y: float, b: int, big: int) -> Estimate:
    right = estimate_noise(x, y, b, big)
    return _estimate(right["squared_norm"], right["trace"], is_guarded=False)


TWO_BATCH = Check(
    cases=two_batch_cases,
    reference=estimate_noise,
    judge=EqualTo(
        solved_estimate,
        Mistake(
            "You take the large batch's squared norm for |G|². What does the line above the "
            "exercise add to |G|², however large the batch is?",
            _biased,
        ),
        *_of_trace(
            "Your trace is the bare difference of the two norms. By how much do 1/b and 1/B "
            "differ?",
            lambda gap, b, big: gap,
        ),
        *_of_trace(
            "You multiply the difference of the norms by the small batch size, as if the large "
            "batch had no noise. What is left over when you subtract the two equations?",
            lambda gap, b, big: gap * b,
        ),
        *_of_trace(
            "You multiply the difference of the norms by that of the batch sizes. In which form "
            "do the sizes stand in the two equations?",
            lambda gap, b, big: gap * (big - b),
        ),
        *_of_trace(
            "You divide the difference of the norms by that of the batch sizes. In which form do "
            "the sizes stand in the two equations?",
            lambda gap, b, big: gap / (big - b),
        ),
        Mistake(
            "Your noise scale has lost its sign where the trace is negative. What does the "
            "exercise say of estimates that are negative by chance?",
            _without_sign,
        ),
        *_of_trace(
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
        relative_tolerance=ROUNDING,
    ),
)
