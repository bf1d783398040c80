"""Results of attention beside the right ones: how many rows are wrong, and a number to know how.

Two mistakes may spoil the same rows. A checksum of all numbers tells them apart; where every row is
right but for rounding, it is the right one's.
"""

import torch
from torch import Tensor

from autograder.checking.plain_data import describe
from autograder.observing.observation import require_tensor

ROUNDING = 1e-9  # float64 with other orders of sums; what the exercises promise
DIGITS = 8  # of a checksum: no order of sums changes them
RESULT_LABELS = {
    "wrong_rows": "rows of the result that are wrong",
    "wrong_lse": "rows whose log-sum-exp is wrong",
    "result_checksum": "the sum of all results, each with a weight of its own",
    "lse_checksum": "the sum of all log-sum-exps, each with a weight of its own",
}


def pair_of_tensors(value: object) -> tuple[Tensor, Tensor]:
    """A result and its log-sum-exp, as an answer returns them.

    Raises:
        TypeError: If it is something else.
    """
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise TypeError(f"wanted a pair of tensors, result and lse, got {describe(value)}")
    result, lse = (require_tensor(each) for each in value)
    return result.detach().double(), lse.detach().double()


def beside(result: Tensor, lse: Tensor, right: tuple[Tensor, Tensor]) -> dict[str, float]:
    """Wrong rows of both, and their checksums."""
    return {
        "wrong_rows": wrong_rows(result, right[0]),
        "wrong_lse": wrong_rows(lse, right[1]),
        "result_checksum": checksum(result, right[0]),
        "lse_checksum": checksum(lse, right[1]),
    }


def wrong_rows(ours: Tensor, theirs: Tensor) -> int:
    """Rows in which some number is another one; all, if the shape is another one."""
    if ours.shape != theirs.shape:
        return len(theirs)
    is_close = torch.isclose(ours, theirs, rtol=ROUNDING, atol=ROUNDING)
    return int((~is_close).flatten(1).any(1).sum() if ours.dim() > 1 else (~is_close).sum())


def checksum(ours: Tensor, right: Tensor) -> float:
    """A weighted sum of all numbers; that of the right ones, where all rows are right."""
    numbers = ours if wrong_rows(ours, right) else right
    weights = torch.linspace(1, 2, numbers.numel(), dtype=torch.float64)
    return float(f"{float((numbers.flatten() * weights).sum()):.{DIGITS}g}")
