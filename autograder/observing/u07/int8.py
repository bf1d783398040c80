"""What is observed of quantisation to int8: both tensors, and x afterwards."""

from typing import Any

import torch
from torch import Tensor

from autograder.checking.exercise_check import Case
from autograder.checking.plain_data import Plain, describe
from autograder.checking.result_form import WrongForm
from autograder.observing.observation import errors_as_data, require_pair, require_tensor

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


def summarise(case: Case, observed: Plain, right: Plain) -> Plain:
    """Flaws of type and shape, and each scale and integer; these are zero if scales do not fit."""
    x, integers, scales = case["x"], observed["integers"], observed["scales"]
    is_one_each = scales.numel() == len(x)
    values = (
        [rounded(each) for each in scales.flatten().tolist()] if is_one_each else [0.0] * len(x)
    )
    of_zeros = [scale for scale, row in zip(values, x, strict=True) if is_one_each and not any(row)]
    return {
        "not_one_each": int(not is_one_each),
        "no_column": int(is_one_each and scales.shape != (len(x), 1)),
        "x_changed": int(observed["x"].tolist() != x),
        "not_int8": int(integers.dtype != torch.int8),
        "not_fp32": int(scales.dtype != torch.float32),
        "zero_scales": of_zeros.count(0),
        "tiny_scales": sum(0 < each < TINY for each in of_zeros),
        **named(values, integers.tolist() if is_one_each else [[0] * len(row) for row in x]),
    }


def named(scales: list[float], integers: list[list[int]]) -> dict[str, float]:
    """A number for each scale, and for each integer."""
    return {f"scale_{n}": scale for n, scale in enumerate(scales)} | {
        f"integer_{n}_{m}": each for n, row in enumerate(integers) for m, each in enumerate(row)
    }


def rounded(scale: float) -> float:
    """Five digits, which two orders of operations in fp32 mostly have in common."""
    return float(f"{scale:.5g}")
