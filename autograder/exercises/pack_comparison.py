"""Do two packs hold the same, but for the last digits that differ from machine to machine?

Numbers are not stored rounded: where two machines differ in a last digit, some would still round to
different numbers, and a count that is kept as a float is compared with ``==``. So packs that
are the same within the rounding of their numbers are one pack, and are not written again.
"""

import math
from typing import Any

import torch
from torch import Tensor

from autograder.checking.judges import NINE_DIGITS
from autograder.checking.plain_data import Plain

# Beside the largest number of a tensor: a few roundings of as many bits as a number keeps.
ROUNDING = {
    torch.float64: NINE_DIGITS,
    torch.float32: 2**-18,
    torch.float16: 2**-8,
    torch.bfloat16: 2**-5,
}


def difference(one: Plain, other: Plain, place: str = "") -> str:
    """The first place in which two values of plain data differ, in words; empty if none does."""
    if type(one) is not type(other):
        return f"{place}: {type(one).__name__} became {type(other).__name__}"
    match one:
        case dict():
            return _of_items(one, other, place)
        case list() | tuple():
            return _of_items(dict(enumerate(one)), dict(enumerate(other)), place)
        case Tensor():
            return "" if _is_same_tensor(one, other) else f"{place}: another tensor"
        case float():
            is_close = math.isclose(one, other, rel_tol=NINE_DIGITS)
            is_same = is_close or (math.isnan(one) and math.isnan(other))
        case _:
            is_same = one == other
    return "" if is_same else f"{place}: {one!r} became {other!r}"


def _of_items(one: dict[Any, Plain], other: dict[Any, Plain], place: str) -> str:
    """The first difference of what stands under keys, which come in the same order."""
    if [*one] != [*other]:
        return f"{place}: {len(one)} items became {len(other)}, or have other names"
    found = (difference(one[key], other[key], f"{place}.{key}".lstrip(".")) for key in one)
    return next(filter(None, found), "")


def _is_same_tensor(one: Tensor, other: Tensor) -> bool:
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    if one.dtype not in ROUNDING or not one.numel():
        return torch.equal(one, other)
    largest = one.double().nan_to_num(0.0, 0.0, 0.0).abs().max()
    within = ROUNDING[one.dtype] * float(largest)
    return torch.allclose(one.double(), other.double(), rtol=0.0, atol=within, equal_nan=True)
