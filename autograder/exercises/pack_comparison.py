"""Do two packs hold the same, but for the last digits that differ from machine to machine?

Numbers are not stored rounded: where two machines differ in a last digit, some would still round to
different numbers, and a count that is kept as a float is compared with ``==``. So packs that
are the same within the rounding of their numbers are one pack, and are not written again.
"""

import math
import re
from collections.abc import Sequence
from typing import Any

from torch import Tensor

from autograder.checking.plain_data import Plain
from autograder.checking.precision import is_same_number, tolerance
from autograder.observers.comparing import same_numbers

NUMBERS_OF_A_MISTAKE = re.compile(r"mistakes\.\d+\.numbers")


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
            is_same = is_same_number(one, other)
        case _:
            is_same = one == other
    return "" if is_same else f"{place}: {one!r} became {other!r}"


def _of_items(one: dict[Any, Plain], other: dict[Any, Plain], place: str) -> str:
    """The first difference of what stands under keys, which come in the same order."""
    if [*one] != [*other]:
        return f"{place}: {len(one)} items became {len(other)}, or have other names"
    of_each = _of_column if NUMBERS_OF_A_MISTAKE.fullmatch(place) else difference
    found = (of_each(one[key], other[key], f"{place}.{key}".lstrip(".")) for key in one)
    return next(filter(None, found), "")


def _of_column(one: Sequence[Any], other: Sequence[Any], place: str) -> str:
    """The first difference of what a mistake gives in all cases.

    A number that is nothing beside the largest is what rounding has left of terms that cancel.
    """
    largest = max((abs(x) for x in one if isinstance(x, float) and math.isfinite(x)), default=0.0)

    def kept(column: Sequence[Any]) -> list[Any]:
        left = tolerance() * largest
        return [0.0 if isinstance(x, float) and abs(x) <= left else x for x in column]

    return difference(kept(one), kept(other), place)


def _is_same_tensor(one: Tensor, other: Tensor) -> bool:
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    is_same = same_numbers(one, other)
    return bool((is_same | (one.isnan() & other.isnan())).all())
