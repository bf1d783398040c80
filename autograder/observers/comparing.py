"""Are two tensors the same? In shape, in what is finite, and in value within their precision."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from autograder.checking.plain_data import describe
from autograder.checking.precision import tolerance
from autograder.checking.result_form import WrongForm, has_form, require_as_many

ALLOWED = {
    torch.float64: tolerance(),
    torch.float32: tolerance("float32", num_terms=64, cancelled=1),
    torch.float16: tolerance("float16", num_terms=1, cancelled=1),
    torch.bfloat16: tolerance("bfloat16", num_terms=1, cancelled=1),
}
# What may become zero where terms cancel, beside the largest number: what is rounded to 16 bits was
# summed in 32.
LOST = dict.fromkeys(ALLOWED, ALLOWED[torch.float32]) | {torch.float64: tolerance(cancelled=1)}
NEARLY = 2**-5  # beside the largest number: what several roundings to bf16 leave


def same_numbers(ours: Tensor, theirs: Tensor, allowed: float | None = None) -> Tensor:
    """Which numbers are the right ones, but for rounding; none of them in another shape.

    What rounding explains is relative to the largest right number, since sums cancel. No rounding
    turns a number into zero that is not as small as one.

    Args:
        ours: Any tensor.
        theirs: The right one.
        allowed: The relative difference; by default that of the right one's precision.
    """
    if ours.shape != theirs.shape or ours.is_complex() != theirs.is_complex():
        return torch.zeros_like(theirs, dtype=torch.bool)
    if not theirs.is_floating_point():
        return ours == theirs
    limit = ALLOWED[theirs.dtype] if allowed is None else allowed
    one, other = ours.double(), theirs.double()
    largest = other[other.isfinite()].abs().max() if other.isfinite().any() else 0.0
    is_lost = (one == 0) != (other == 0)
    limits = torch.where(is_lost, min(limit, LOST[theirs.dtype]), limit) * largest
    return ((one - other).abs() <= limits) | (one == other)


def is_same(ours: Tensor | None, theirs: Tensor | None, allowed: float | None = None) -> bool:
    """Whether all numbers are the right ones, but for rounding; a missing tensor is all zeros.

    Where the right one is missing, anything is.

    Raises:
        WrongForm: If numbers are complex that should not be.
    """
    if theirs is None:
        return True
    ours = torch.zeros_like(theirs) if ours is None else ours
    if ours.is_complex() and not theirs.is_complex():
        raise WrongForm(describe(theirs), describe(ours))
    return ours.shape == theirs.shape and bool(same_numbers(ours, theirs, allowed).all())


def is_same_tensor(ours: Any, theirs: Tensor) -> bool:
    """Whether a value is the right tensor: of its dtype and shape, and equal but for rounding."""
    return has_form(ours, theirs) and is_same(ours, theirs)


def num_different(
    ours: Iterable[Tensor | None],
    theirs: Iterable[Tensor | None],
    allowed: float | None = None,
) -> int:
    """How many tensors differ from the right ones.

    Raises:
        WrongForm: If there are more or fewer, or one is complex.
    """
    mine, right = [*ours], [*theirs]
    require_as_many(mine, right)
    return sum(not is_same(*pair, allowed) for pair in zip(mine, right, strict=True))


def num_rounded(ours: Iterable[Tensor | None], theirs: Iterable[Tensor | None]) -> int:
    """How many tensors differ from the right ones as if they had been rounded to fewer bits."""
    pairs = zip(ours, theirs, strict=True)
    return sum(is_nearly(*pair) and not is_same(*pair) for pair in pairs)


def is_nearly(ours: Tensor | None, theirs: Tensor | None) -> bool:
    """Whether the first digits of all large numbers are the same."""
    if ours is None or theirs is None or ours.shape != theirs.shape or ours.is_complex():
        return False
    off = (ours.double() - theirs.double()).abs()
    return bool((off <= NEARLY * theirs.double().abs().max()).all())


def is_equal(one: Tensor | None, other: Tensor | None) -> bool:
    """Whether two tensors hold the same numbers, or both are missing."""
    if one is None or other is None:
        return one is other
    return torch.equal(one, other)


def num_changed(afterwards: Iterable[Tensor], before: Iterable[Tensor]) -> int:
    """How many tensors hold other numbers afterwards."""
    return sum(not is_equal(*pair) for pair in zip(afterwards, before, strict=True))
