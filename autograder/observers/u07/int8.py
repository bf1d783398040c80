"""What is observed of quantisation to int8: both tensors, and x afterwards."""

from typing import Any

import torch
from torch import Tensor

from autograder.checking.fact import Case, Fact, Plain
from autograder.checking.plain_data import describe
from autograder.checking.result_form import WrongForm
from autograder.observers.tools import errors_as_data, require_pair, require_tensor

TINY = 1e-3


@errors_as_data
def observe(answer: Any, case: Case) -> dict[str, Any]:
    """Integers and scales as they are, and x as it is afterwards."""
    x = torch.tensor(case["x"])
    shape, result = x.shape, answer(x)
    integers, scales = require_pair(result, "a pair of tensors")
    if not isinstance(integers, Tensor) or not isinstance(scales, Tensor):
        came = f"{describe(integers)} and {describe(scales)}"
        raise WrongForm("a pair of tensors", came)
    integers, scales = require_tensor(integers), require_tensor(scales)
    if integers.shape != shape:
        raise WrongForm(f"integers of the shape of x, {tuple(shape)}", describe(integers))
    return {"integers": integers, "scales": scales, "x": x}


def facts(case: Case, observed: Plain, right: Plain) -> list[Fact]:
    """Flaws of type and shape, and each scale and integer; these are zero if scales do not fit."""
    x, integers, scales = case["x"], observed["integers"], observed["scales"]
    is_one_each = scales.numel() == len(x)
    values = (
        [rounded(each) for each in scales.flatten().tolist()] if is_one_each else [0.0] * len(x)
    )
    of_zeros = [scale for scale, row in zip(values, x, strict=True) if is_one_each and not any(row)]
    whole = integers.tolist() if is_one_each else [[0] * len(row) for row in x]
    return [
        Fact(
            "not_one_each",
            int(not is_one_each),
            "There is not one scale for each row.",
            "How many scales do you return for a matrix of three rows and five columns, and over "
            "which dimension did you take the largest?",
        ),
        Fact(
            "no_column",
            int(is_one_each and scales.shape != (len(x), 1)),
            "The scales are not a column.",
            "There is one scale for each row. Which shape does your tensor of scales have, and "
            "which one does the exercise ask for?",
        ),
        Fact(
            "x_changed",
            int(observed["x"].tolist() != x),
            "x has changed.",
            "Which of your operations works in place, and does the tensor that it writes into "
            "share memory with `x`?",
        ),
        Fact(
            "not_int8",
            int(integers.dtype != torch.int8),
            "The integers are not in int8.",
            "Which type does your tensor of integers have, and which line decides that?",
        ),
        Fact(
            "not_fp32",
            int(scales.dtype != torch.float32),
            "The scales are not in fp32.",
            "In which type does `x` come, and from which line on do your scales have a different "
            "one?",
        ),
        Fact(
            "zero_scales",
            of_zeros.count(0),
            "rows of zeros with a scale of zero",
            "What do you divide by in a row of zeros, and which scale does the exercise ask for "
            "there?",
        ),
        Fact(
            "tiny_scales",
            sum(0 < each < TINY for each in of_zeros),
            "rows of zeros with a scale near zero",
            "Which of your operations keeps the scale of a row of zeros above zero, and which "
            "scale should such a row have?",
        ),
        *numbers(values, whole),
    ]


def numbers(scales: list[float], integers: list[list[int]]) -> list[Fact]:
    """A number for each scale, and for each integer."""
    of_scales = [
        Fact(
            f"scale_{row}",
            scale,
            f"the scale of row {row}",
            "Work out the scale of this row by hand. Which of its numbers decides, which integer "
            "should that number become, and what if the whole row is zeros?",
        )
        for row, scale in enumerate(scales)
    ]
    of_integers = [
        Fact(
            f"integer_{row}_{column}",
            integer,
            f"the integer in row {row}, column {column}",
            "Divide the number in this place by the scale of its row. Which integer is nearest to "
            "the quotient, and which one do you take for a tie or below zero?",
        )
        for row, integers_of_row in enumerate(integers)
        for column, integer in enumerate(integers_of_row)
    ]
    return of_scales + of_integers


def rounded(scale: float) -> float:
    """Five digits, which two orders of operations in fp32 mostly have in common."""
    return float(f"{scale:.5g}")
