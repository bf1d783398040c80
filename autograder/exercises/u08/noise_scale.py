"""Check of the noise scale, from the gradients of all examples."""

import itertools
import math
import random
from fractions import Fraction
from typing import Any

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.checking.precision import PROMISED
from autograder.exercises.model_answers import mistakes_of
from autograder.observing.u08 import noise_scale

Rows = list[list[float]]

BATCH_SIZE = 2  # of the batches that the measurement draws


def noise_scale_cases(seed: int) -> list[Case]:
    """Few and many examples; gradients that are equal, nearly equal, cancel, are zero or tiny."""
    rng = random.Random(seed)
    cases: list[Rows] = [[[4.0, 1.0], [0.0, -3.0]]]
    cases += [_around_a_mean(rng, n, p) for n in (2, 3, 4, 5, 7) for p in (2, 3, 5)]
    cases += [_cancelling(rng, n, p) for n, p in ((2, 3), (3, 2), (5, 4))]
    cases += [[_row(rng, p, 1)] * n for n, p in ((2, 3), (4, 2))]
    cases += [_nearly_equal(rng, n, p) for n, p in ((2, 2), (2, 3), (2, 2))]
    cases += [[[0.0] * rng.randint(2, 9)] * rng.randint(2, 9)]
    cases += [_tiny(_around_a_mean(rng, n, 3), power) for n, power in ((2, -9), (4, -9), (3, -60))]
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


def _nearly_equal(rng: random.Random, num_examples: int, num_params: int) -> Rows:
    """Pairs on two sides of a large mean, whose squares have no digits left for the distance.

    Means are whole multiples of 2^20, so that sums of squares are rounded once, to those of the
    mean: what an answer gives that takes their difference is the same number on every machine.
    """
    middle = [rng.randint(17, 31) * 2.0**20 for _ in range(num_params)]
    rows = []
    for _ in range(num_examples // 2):
        distances = [rng.choice((1, 2)) / 16 for _ in middle]
        rows += [[m + sign * d for m, d in zip(middle, distances, strict=True)] for sign in (1, -1)]
    return rows


def _tiny(rows: Rows, power: int) -> Rows:
    return [[float(f"{each}e{power}") for each in row] for row in rows]


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


CHECK = Check(
    cases=noise_scale_cases,
    observe=noise_scale.observe,
    judge=EqualTo(
        enumerated_noise_scale,
        *mistakes_of("u08-noise-scale", observe=noise_scale.observe),
        relative_tolerance=PROMISED,
    ),
    fallback="course_utils.reference.batch_experiment.noise_scale",
    answers=("course_utils.reference.batch_experiment.noise_scale",),
)
