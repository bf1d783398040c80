"""Check of the noise scale, from the gradients of all examples."""

import itertools
import math
import random
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import torch

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import NINE_DIGITS, EqualTo, Mistake
from course_utils.reference.batch_experiment import noise_scale

Rows = list[list[float]]

NEARLY_ZERO = 1e-8  # the absolute tolerance of torch.allclose
BATCH_SIZE = 2  # of the batches that the measurement draws


def noise_scale_cases(seed: int) -> list[Case]:
    """Few and many examples; gradients that are equal, cancel, are zero or tiny."""
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
    """The noise scale without a covariance: from every batch of two that can be drawn.

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
    """The quantities that wrong formulas combine."""

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


def _transposed(rows: Rows) -> Rows:
    return [list(column) for column in zip(*rows, strict=True)]


CHECK = Check(
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
            lambda rows: _of(lambda p: p.trace / p.squared_norm)(_transposed(rows)),
        ),
        Mistake(
            "Your fraction stands on its head. Should more noise make it larger or smaller?",
            _of(lambda p: p.squared_norm / p.trace),
        ),
        Mistake(
            "That is the root of the noise scale. Which squares does the exercise ask for?",
            _of(lambda p: math.sqrt(p.trace / p.squared_norm)),
        ),
        relative_tolerance=NINE_DIGITS,
    ),
)
