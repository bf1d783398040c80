"""Attention over some keys, computed at once, as the tiled and the distributed one must have it."""

import torch
from torch import Tensor


def attend_exactly(scores: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """Results (rows, width) and log-sum-exp (rows,); a row without keys has zeros and -inf.

    Args:
        scores: Shape (rows, keys); -inf where nothing may be seen.
        values: Shape (keys, width).
    """
    has_keys = (scores > -torch.inf).any(1, keepdim=True)
    out = torch.where(has_keys, scores, 0.0).softmax(1) @ values * has_keys
    return out, scores.logsumexp(1)
