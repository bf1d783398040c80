"""The form of a result: its type, dtype and shape, which are asked for before any value.

A result of another form raises `WrongForm`, beside a student's code or where it is judged. Its two
texts make the sentence of a verdict: what was wanted, and what came.
"""

import math
from collections.abc import Sized
from typing import TYPE_CHECKING, Any

from autograder.checking.plain_data import describe

if TYPE_CHECKING:
    from torch import Tensor

LARGEST = 10**100  # a larger number is neither printed nor compared


class NotCounted(Exception):
    """An answer works where no instrument sees it; the message says what it does."""


class WrongForm(TypeError):
    """A result of another form than the wanted one.

    Attributes:
        wanted: What was wanted, in words that follow 'Expected'.
        came: What came instead, in words that follow 'got'.
    """

    def __init__(self, wanted: str, came: str) -> None:
        super().__init__(f"wanted {wanted}, got {came}")
        self.wanted, self.came = wanted, came


def is_number(value: object) -> bool:
    """Whether a value is an int or a float that can be compared: no bool, and not too large."""
    return type(value) in (int, float) and not LARGEST < abs(value) < math.inf  # type: ignore[arg-type]


def require_number(value: object, wanted: str = "a number") -> float:
    """Return a number as a float.

    Raises:
        WrongForm: If it is no number, or one that is too large.
    """
    if not is_number(value):
        is_large = type(value) in (int, float)
        raise WrongForm(wanted, "a number too large to print" if is_large else describe(value))
    return float(value)  # type: ignore[arg-type]


def require_dtype(ours: Any, theirs: "Tensor") -> None:
    """Check that a tensor has the dtype of the right one, so that numbers can be compared.

    Raises:
        WrongForm: If it has another one, or is no tensor.
    """
    if type(ours) is not type(theirs) or ours.dtype != theirs.dtype:
        raise WrongForm(describe(theirs), describe(ours))


def has_form(ours: Any, theirs: "Tensor") -> bool:
    """Whether a value is a tensor with dtype and shape of the right one."""
    return type(ours) is type(theirs) and (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)


def require_form(ours: Any, theirs: "Tensor") -> None:
    """Check that a tensor has dtype and shape of the right one.

    Raises:
        WrongForm: If it has others, or is no tensor.
    """
    if not has_form(ours, theirs):
        raise WrongForm(describe(theirs), describe(ours))


def require_as_many(ours: Sized, theirs: Sized) -> None:
    """Check that there are as many tensors as there should be.

    Raises:
        WrongForm: If there are more or fewer.
    """
    if len(ours) != len(theirs):
        raise WrongForm(f"tensors: {len(theirs)}", str(len(ours)))
