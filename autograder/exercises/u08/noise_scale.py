"""Check of the noise scale, from the gradients of all examples."""

import itertools
import math
import random
from fractions import Fraction
from typing import Any

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.checking.precision import PROMISED
from autograder.exercises.model_answers import Edit, each_also, edited
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


SIZE, TRACE = "(whole**2).sum()", "gradients.var(dim=0, correction=0).sum()"
MEAN, GUARD = "gradients.mean(dim=0)", "size == 0"
# Tensors divide by zero without an error, so most people meet this case last.
NOT_A_NUMBER = {"math.inf": "math.inf if gradients.any() else math.nan"}
ALONG_ROWS = (
    "You average along the rows, over the parameters of one example. Along which side of the "
    "matrix do the examples lie?"
)
BY_ROWS = (
    {"var(dim=0": "var(dim=1"},
    {TRACE: "((gradients - whole[:, None]) ** 2).sum(dim=1).mean()"},
)
ONE_MEAN = (
    "Your G is one number, the mean of the whole matrix. A gradient has one number for each what?"
)
AROUND_ONE = (
    TRACE,
    *(f"((gradients - whole) ** 2){each}" for each in (".sum(dim=1).mean()", ".sum()", ".mean()")),
)
OTHER_TRACES = {
    "gradients.var(dim=0, correction=1).sum()": (
        "You divide by n − 1, as for a sample from something larger. Are these examples a sample "
        "here, or all the data?"
    ),
    "(gradients**2).sum(dim=1).mean()": (
        "Your noise is the mean squared length of the gradients themselves. From where is the "
        "noise of an example measured?"
    ),
    "(gradients**2).sum(dim=1).mean() - size": (
        "Right but where the rows are nearly equal: there you subtract two large numbers that "
        "agree in all the digits that a float has. What is small from the start, and can be "
        "squared?"
    ),
    "gradients.var(dim=0, correction=0).mean()": (
        "Your tr(Σ) is a mean over the parameters. How many numbers of the diagonal does a trace "
        "add up?"
    ),
    "gradients.std(dim=0, correction=0).sum()": (
        "You add standard deviations. What stands on the diagonal of a covariance?"
    ),
    "((gradients - whole) ** 2).sum()": (
        "Your tr(Σ) is a sum over the examples. Does the noise of one example grow with the number "
        "of others?"
    ),
    "(gradients - whole).sum(dim=1).square().mean()": (
        "You add up all numbers of the covariance, or square a sum. Which of its numbers does a "
        "trace take?"
    ),
    "gradients.norm(dim=1).var(correction=0)": (
        "Your noise is that of the lengths. How far apart are two gradients of one length that "
        "point to opposite sides?"
    ),
    "(gradients - whole).norm(dim=1).mean()": (
        "Your noise is a mean distance. What stands on the diagonal of a covariance, distances or "
        "their squares?"
    ),
    "(gradients - whole).norm(dim=1).mean() ** 2": (
        "You square a mean distance. Which comes first in a variance, the mean or the square?"
    ),
}
OTHER_SIZES = {
    "whole.norm()": "You divide by |G|, not by its square. If a gradient has a "
    "unit, which one does tr(Σ) have?",
    "(gradients**2).sum(dim=1).mean()": (
        "You divide by the mean squared length of single gradients. Is that the length of their "
        "mean?"
    ),
    "gradients.norm(dim=1).mean() ** 2": (
        "You divide by the square of a mean of lengths. Which comes first in |G|, the mean or the "
        "length?"
    ),
    "whole.sum() ** 2": (
        "You divide by the square of a sum of numbers, which may cancel. What does a squared norm "
        "add up?"
    ),
    "(whole**2).mean()": (
        "Your |G|² is a mean over the parameters. What does a squared norm do with its numbers?"
    ),
}
EDITS = (
    Edit(
        "Where the mean gradient is zero you say that there is no noise. How many examples would a "
        "batch need there until gradient and noise are equally large?",
        {"math.inf": "0.0"},
    ),
    Edit(
        "Where all gradients are zero your answer is not a number. What does the exercise want "
        "where G is zero?",
        NOT_A_NUMBER,
    ),
    Edit(
        "You take a small G for zero. How large are the gradients of this case, and is their noise "
        "any larger?",
        {GUARD: "whole.abs().max() < 1e-8"},
    ),
    Edit(
        "You take a small G for zero. How large is the square of a gradient that is not?",
        {GUARD: "size < 1e-30"},
    ),
    *each_also(
        [
            *(Edit(hint, {TRACE: trace}) for trace, hint in OTHER_TRACES.items()),
            *(Edit(hint, {SIZE: size}) for size, hint in OTHER_SIZES.items()),
            *(Edit(ALONG_ROWS, {MEAN: "gradients.mean(dim=1)", **rest}) for rest in BY_ROWS),
            *(Edit(ONE_MEAN, {MEAN: "gradients.mean()", TRACE: trace}) for trace in AROUND_ONE),
            Edit(
                "Your G is a sum over the examples. What is the gradient of a mean loss?",
                {MEAN: "gradients.sum(dim=0)"},
            ),
        ],
        NOT_A_NUMBER,
    ),
    Edit(
        "Your fraction is upside down. Should more noise make it larger or smaller?",
        {"trace / size": "size / trace if trace else math.inf"},
    ),
    Edit(
        "That is the square root of the noise scale. Which squares does the exercise ask for?",
        {"trace / size": "math.sqrt(trace / size)"},
    ),
)

CHECK = Check(
    cases=noise_scale_cases,
    observe=noise_scale.observe,
    judge=EqualTo(
        enumerated_noise_scale,
        *edited("u08-noise-scale", EDITS, observe=noise_scale.observe),
        relative_tolerance=PROMISED,
    ),
    fallback="course_utils.reference.batch_experiment.noise_scale",
    answers=("course_utils.reference.batch_experiment.noise_scale",),
)
