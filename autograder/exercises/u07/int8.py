"""Check of quantisation to int8 with one scale for each row."""

import random
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import torch
from torch import Tensor

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo, Mistake
from autograder.checking.plain_data import describe

LARGEST = 127
SCALE_ROUNDING = 1e-6  # one division in fp32, in another order
DISTANCE_FROM_TIE = 0.01  # so that a scale with other roundings gives the same integers

FLAWS = ("wrong_shape_of_scales", "scales_without_columns", "x_changed", "integers_not_int8")

Rows = list[list[float]]
Numbers = dict[str, int | float]


def quantised(x: Tensor) -> tuple[Tensor, Tensor]:
    """The course's own answer."""
    scales = x.abs().amax(dim=-1, keepdim=True) / LARGEST
    scales = torch.where(scales == 0, 1.0, scales)
    return torch.round(x / scales).to(torch.int8), scales


def quantised_cases(seed: int) -> list[Case]:
    """Rows of several sizes, one whose largest is negative, one of zeros, and ties."""
    rng = random.Random(seed)
    cases: list[Rows] = [[[254.0, -3.0]], [[0.0, 0.0, 0.0], [127.0, 0.5, -2.5]]]
    while len(cases) < 20:
        num_columns = rng.randint(3, 4)
        rows = [_row(rng, num_columns, scale) for scale in rng.sample((0.25, 1, 8, 64), 2)]
        rows[0][0] = -2 * max(map(abs, rows[0]))
        if len(cases) % 4 == 0:
            rows[1] = [0.0] * num_columns
        if all(_is_far_from_ties(row) for row in rows):
            cases.append(rows)
    return [{"x": rows} for rows in cases]


def _row(rng: random.Random, num_columns: int, scale: float) -> list[float]:
    return [float(scale * rng.choice((-1, 1)) * rng.randint(1, 99)) for _ in range(num_columns)]


def _is_far_from_ties(row: list[float]) -> bool:
    """Whether no number lies near the middle between two integers."""
    largest = max(map(abs, row)) or 1.0
    return all(abs(LARGEST * abs(x) / largest % 1 - 0.5) > DISTANCE_FROM_TIE for x in row)


def observe_quantised(answer: Any, case: Case) -> object:
    """Integers and scales as named numbers, and flaws of type and shape."""
    x = torch.tensor(case["x"])
    result = answer(x)
    if not (isinstance(result, tuple) and len(result) == 2):
        raise TypeError(f"wanted two tensors, integers and scales; it returned {describe(result)}")
    integers, scales = result
    num_rows, num_columns = len(case["x"]), len(case["x"][0])
    if not isinstance(integers, Tensor) or integers.shape != (num_rows, num_columns):
        raise TypeError("wanted a tensor of the shape of x as the first result")
    if not isinstance(scales, Tensor) or scales.numel() != num_rows:
        return _named([], [], case["x"]) | {"wrong_shape_of_scales": 1}
    found = _named(integers.tolist(), scales.flatten().tolist(), case["x"])
    return found | {
        "scales_without_columns": int(scales.shape != (num_rows, 1)),
        "x_changed": int(x.tolist() != case["x"]),
        "integers_not_int8": int(integers.dtype != torch.int8),
    }


def _named(integers: list[list[int]], scales: list[float], x: Rows) -> Numbers:
    """A number for each scale and integer, zero where there is none; no flaws."""
    numbers: Numbers = dict.fromkeys(FLAWS, 0)
    for row in range(len(x)):
        numbers[f"scale of row {row}"] = scales[row] if scales else 0
        for column in range(len(x[0])):
            name = f"integer in row {row}, column {column}"
            numbers[name] = integers[row][column] if integers else 0
    return numbers


def wanted(x: Rows) -> Numbers:
    """The same by exact fractions, number by number."""
    scales = [Fraction(max(map(abs, row))) / LARGEST or Fraction(1) for row in x]
    integers = [
        [round(Fraction(number) / scale) for number in row]
        for row, scale in zip(x, scales, strict=True)
    ]
    return _named(integers, [float(scale) for scale in scales], x)


def _row_maxima(x: Rows) -> Tensor:
    """The largest absolute value of each row, in fp32 as in an answer."""
    return torch.tensor(x).abs().amax(-1)


def _other_integers(x: Rows, whole: Callable[[Tensor], Tensor]) -> Numbers:
    """Right scales, and integers rounded in another way."""
    _, scales = quantised(torch.tensor(x))
    integers = whole(torch.tensor(x) / scales).int()
    return _named(integers.tolist(), scales.flatten().tolist(), x)


def _tiny_for_zeros(x: Rows, divisor: int) -> Numbers:
    tiny = (torch.tensor(1e-8) / divisor).item()
    return {f"scale of row {n}": tiny for n, row in enumerate(x) if not any(row)}


def _scales(x: Rows, made: Tensor) -> Numbers:
    """These scales for the rows that are not all zeros."""
    return {f"scale of row {n}": scale for n, scale in enumerate(made.tolist()) if any(x[n])}


CHECK = Check(
    cases=quantised_cases,
    reference=quantised,
    observe=observe_quantised,
    judge=EqualTo(
        wanted,
        Mistake(
            "There is not one scale for each row. Over which dimension do you take the largest?",
            lambda x: {"wrong_shape_of_scales": 1},
        ),
        Mistake(
            "Your scale is one number for all rows. Over which dimension do you take the largest, "
            "and which one should stay?",
            lambda x: {"scales_without_columns" if len(x) == 1 else "wrong_shape_of_scales": 1},
        ),
        Mistake(
            "There is one scale for each row, and no column of them. Which shape does the exercise "
            "ask for, and what does scales times integers do with yours?",
            lambda x: {"scales_without_columns": 1},
        ),
        Mistake(
            "Your function changes x itself. Whose tensor is that, and which of your operations "
            "writes into it?",
            lambda x: {"x_changed": 1},
        ),
        Mistake(
            "All numbers are right, and they are not stored as int8. How many bytes does one "
            "take now?",
            lambda x: {"integers_not_int8": 1},
        ),
        Mistake(
            "Rows of zeros have a scale of zero. What is 0 / 0, and which scale does the exercise "
            "ask for?",
            lambda x: {f"scale of row {n}": 0 for n, row in enumerate(x) if not any(row)},
        ),
        Mistake(
            "Digits are cut off. Which integer is nearest to 1.9?",
            lambda x: _other_integers(x, torch.trunc),
        ),
        Mistake(
            "Ties alone are wrong: 0.5 goes away from zero with you. Which of its two neighbours "
            "is even?",
            lambda x: _other_integers(x, lambda q: q.sign() * (q.abs() + 0.5).floor()),
        ),
        Mistake(
            "Ties alone are wrong: 0.5 goes up with you. Which of its two neighbours is even?",
            lambda x: _other_integers(x, lambda q: (q + 0.5).floor()),
        ),
        Mistake(
            "A row of zeros has a tiny scale with you. Which one does the exercise ask for?",
            lambda x: _tiny_for_zeros(x, 1),
        ),
        Mistake(
            "A row of zeros has a tiny scale with you, a 127th of your smallest size. Which one "
            "does the exercise ask for?",
            lambda x: _tiny_for_zeros(x, LARGEST),
        ),
        Mistake(
            "A row whose largest number is negative has the wrong scale. Whose size decides?",
            lambda x: _scales(x, torch.tensor(x).amax(-1) / LARGEST),
        ),
        Mistake(
            "The largest becomes 128 with you, which int8 does not have. Which is the last "
            "integer above zero?",
            lambda x: _scales(x, _row_maxima(x) / 128),
        ),
        Mistake(
            "You spread a row over 255 integers from zero. How many are there on one side of zero?",
            lambda x: _scales(x, _row_maxima(x) / 255),
        ),
        Mistake(
            "Your scales are upside down. By what are the integers multiplied to get x back?",
            lambda x: _scales(x, LARGEST / _row_maxima(x)),
        ),
        relative_tolerance=SCALE_ROUNDING,
        together=True,
    ),
)
