"""Check of quantisation to int8 with one scale for each row."""

import random
from fractions import Fraction
from typing import Any

import torch

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.checking.mistakes import Symptom
from autograder.exercises.model_answers import Edit, edited
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


# The model answer's pieces.
SIZES = "x.abs().max(dim=1, keepdim=True).values"
SCALE = "torch.where(largest > 0, largest / 127, torch.ones_like(largest))"
QUOTIENT, INTEGERS, RETURNED = "(x / scale)", "(x / scale).round()", "to(torch.int8), scale"
NOT_FOR_ROWS = ("not_one_each", "no_column")
ON_ONE_SIDE = (
    "You spread a row over more integers than there are on one side of zero. Which is the last one?"
)
NO_COLUMN = (
    "You have one scale per row, but not as a column. Which shape does the exercise ask for, and "
    "which numbers does x / scale pair with yours?"
)
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
EDITS = (
    Edit(
        "You do not have one scale per row. Over which dimension do you take the largest?",
        {SIZES: "x.abs().max(dim=0, keepdim=True).values"},
        shows=NOT_FOR_ROWS,
    ),
    Edit(
        "Your scale is one number for all rows. Over which dimension do you take the largest, "
        "and which one should stay?",
        {SIZES: "x.abs().max()"},
        shows=NOT_FOR_ROWS,
    ),
    Edit(
        NO_COLUMN,
        {RETURNED: f"{RETURNED}.squeeze(1)"},
    ),
    Edit(NO_COLUMN, {SIZES: "x.abs().max(dim=1).values"}),
    Edit(
        "Your rows of zeros have a scale of zero. What is 0 / 0, and which scale does the "
        "exercise ask for?",
        {SCALE: "largest / 127"},
        shows=("zero_scales",),
    ),
    *(
        Edit(
            "Your rows of zeros have a tiny scale. Which one does the exercise ask for?",
            {SCALE: scale},
            shows=("tiny_scales",),
        )
        for scale in ("largest.clamp(min=1e-8) / 127", "largest / 127 + 1e-8")
    ),
    Edit(
        "Your rows of zeros have the scale 1/127. What should be 1 there: the largest absolute "
        "value, or the scale?",
        {SCALE: "torch.where(largest > 0, largest, torch.ones_like(largest)) / 127"},
    ),
    Edit(
        "You give rows of very small numbers another scale than their own. Which rows should "
        "have the scale 1?",
        {"largest > 0": "largest > 1e-6"},
    ),
    Edit(
        "Your row of zeros has no scale of 1, and every other row has. Which of the two cases "
        "does your condition pick?",
        {SCALE: "torch.where(largest > 0, torch.ones_like(largest), largest / 127)"},
        shows=("zero_scales", *SCALES),
    ),
    Edit(
        "Your scales are whole numbers. What is the scale of a row whose largest number is 1?",
        {"largest / 127": "largest // 127"},
        shows=SCALES,
    ),
    Edit(
        "Your scales are right, but your integers are those of x itself. What should a row's "
        "largest absolute value become?",
        {QUOTIENT: "x"},
    ),
    Edit(
        "You cut digits off. Which integer is nearest to 1.9?",
        {INTEGERS: QUOTIENT},
    ),
    Edit(
        "You round down, below zero too. Which integer is nearest to 1.9?",
        {INTEGERS: f"{QUOTIENT}.floor()"},
    ),
    Edit(
        "Only ties are wrong: you round 0.5 away from zero. Which of its two neighbors is even?",
        {INTEGERS: f"(x.sign() * ({QUOTIENT}.abs() + 0.5).floor())"},
    ),
    Edit(
        "Only ties are wrong: you round 0.5 up. Which of its two neighbors is even?",
        {INTEGERS: f"({QUOTIENT} + 0.5).floor()"},
    ),
    Edit(
        "All your rows have the same scale. Over which dimension do you take the largest?",
        {SIZES: "x.abs().max().expand(len(x), 1).clone()"},
        shows=SCALES,
    ),
    *(
        Edit(
            "A row whose number farthest from zero is negative has the wrong scale. What "
            "decides: the largest number, or the largest absolute value?",
            {SIZES: f"{SIZES.replace('.abs()', '')}{size}", "largest > 0": f"largest {decides} 0"},
            shows=SCALES,
        )
        for size, decides in (("", ">"), ("", "!="), (".abs()", ">"))
    ),
    Edit(
        "Your scale is made of a row's range, from its smallest number to its largest. Which "
        "integer stands for zero then, and which for the largest absolute value?",
        {
            SIZES: f"({SIZES.replace('.abs()', '')} - x.min(dim=1, keepdim=True).values)",
            "127": "255",
        },
        shows=SCALES,
    ),
    Edit(
        "Your largest integer would be 128, which int8 does not have. Which is the last one "
        "above zero?",
        {"127": "128"},
        shows=SCALES,
    ),
    Edit(ON_ONE_SIDE, {"127": "255"}, shows=SCALES),
    Edit(ON_ONE_SIDE, {"127": "127.5"}, shows=SCALES),
    Edit(
        "Your scales are inverted. What are the integers multiplied by to get x back?",
        {"largest / 127": "127 / largest", QUOTIENT: "(x * scale)"},
    ),
)

CHECK = Check(
    cases=quantised_cases,
    observe=int8.observe,
    judge=Behaviour(
        measured,
        *SYMPTOMS,
        *edited("u07-int8", EDITS, observe=int8.observe),
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
