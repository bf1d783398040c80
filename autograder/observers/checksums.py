"""Tensors of results beside the right ones: how many rows are wrong, and a number to know how.

Two mistakes may spoil the same rows. A checksum of all numbers tells them apart; where every row is
right but for rounding, it is the right one's.
"""

import torch
from torch import Tensor

from autograder.checking.result_form import require_dtype
from autograder.observers.comparing import same_numbers


def wrong_rows(ours: Tensor, theirs: Tensor) -> int:
    """Rows in which some number is another one; all, if the shape is another one."""
    require_dtype(ours, theirs)
    if ours.shape != theirs.shape:
        return len(theirs)
    is_wrong = ~same_numbers(ours, theirs)
    return int(is_wrong.flatten(1).any(1).sum() if ours.dim() > 1 else is_wrong.sum())


def checksum(ours: Tensor, right: Tensor) -> float:
    """A weighted sum of all numbers; that of the right ones, where all rows are right."""
    numbers = ours if wrong_rows(ours, right) else right
    weights = torch.linspace(1, 2, numbers.numel(), dtype=torch.float64)
    return float((numbers.flatten() * weights).sum())
