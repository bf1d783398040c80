"""Check of quantisation to int8 with one scale for each row."""

import random
from fractions import Fraction
from typing import Any

import torch

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.checking.mistakes import Symptom
from autograder.exercises.model_answers import mistakes_of
from autograder.observing.u07 import int8

LARGEST = 127
FIVE_DIGITS = 1e-4
DISTANCE_FROM_TIE = 0.01  # so that a scale with other roundings gives the same integers
MOST_ROWS, MOST_COLUMNS = 3, 5
SCALES = tuple(f"scale_{row}" for row in range(MOST_ROWS))

Rows = list[list[float]]


def quantised_cases(seed: int) -> list[Case]:
    """Rows of several sizes, one whose largest is negative, ties; zeros beside nearly nothing."""
    rng = random.Random(seed)
    cases: list[Rows] = [
        [[254.0, -3.0]],
        [[0.0] * 4, [127.0, 0.5, -2.5, float(rng.randint(-99, 99))]],
    ]
    while len(cases) < 20:
        num_columns = rng.randint(3, MOST_COLUMNS)
        rows = [_row(rng, num_columns, scale) for scale in rng.sample((0.25, 1, 8, 64), 2)]
        rows[0][0] = -2 * max(map(abs, rows[0]))
        if len(cases) % 4 == 0:
            rows[1:] = [[0.0] * num_columns, _row(rng, num_columns, 2.0**-40)]
        if all(_is_far_from_ties(row) for row in rows):
            cases.append(rows)
    return [{"x": rows} for rows in cases]


def _row(rng: random.Random, num_columns: int, scale: float) -> list[float]:
    return [float(scale * rng.choice((-1, 1)) * rng.randint(1, 99)) for _ in range(num_columns)]


def _is_far_from_ties(row: list[float]) -> bool:
    """Whether no number lies near the middle between two integers."""
    largest = max(map(abs, row)) or 1.0
    return all(abs(LARGEST * abs(x) / largest % 1 - 0.5) > DISTANCE_FROM_TIE for x in row)


def measured(x: Rows) -> dict[str, Any]:
    """Scales and integers by exact fractions, number by number."""
    scales = [Fraction(max(map(abs, row))) / LARGEST or Fraction(1) for row in x]
    integers = [
        [round(Fraction(number) / scale) for number in row]
        for row, scale in zip(x, scales, strict=True)
    ]
    flaws = ("not_one_each", "no_column", "x_changed", "not_int8", "not_fp32")
    return dict.fromkeys((*flaws, "zero_scales", "tiny_scales"), 0) | int8.named(
        [int8.rounded(_in_fp32(scale)) for scale in scales], integers
    )


def _in_fp32(number: Fraction) -> float:
    return torch.tensor(float(number), dtype=torch.float64).float().item()


SYMPTOMS = (
    Symptom(
        "Your function changes x itself. Which of your operations writes into it?",
        lambda x: {"x_changed": 1},
    ),
    Symptom(
        "Your integers are not stored as int8. How many bytes does each take now?",
        lambda x: {"not_int8": 1},
    ),
    Symptom(
        "Your scales are not stored as fp32. Which line changes their type?",
        lambda x: {"not_fp32": 1},
    ),
)

CHECK = Check(
    cases=quantised_cases,
    observe=int8.observe,
    judge=Behaviour(
        measured,
        *SYMPTOMS,
        *mistakes_of("u07-int8", observe=int8.observe),
        summarise=int8.summarise,
        relative_tolerance=FIVE_DIGITS,
        labels={
            "not_one_each": "There is not one scale for each row.",
            "no_column": "The scales are not a column.",
            "x_changed": "x has changed.",
            "not_int8": "The integers are not in int8.",
            "not_fp32": "The scales are not in fp32.",
            "zero_scales": "rows of zeros with a scale of zero",
            "tiny_scales": "rows of zeros with a scale near zero",
            **{name: f"the scale of row {row}" for row, name in enumerate(SCALES)},
            **{
                f"integer_{row}_{column}": f"the integer in row {row}, column {column}"
                for row in range(MOST_ROWS)
                for column in range(MOST_COLUMNS)
            },
        },
    ),
    fallback="course_utils.reference.fewer_bits.quantised",
    answers=("course_utils.reference.fewer_bits",),
)
