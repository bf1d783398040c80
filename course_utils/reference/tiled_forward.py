"""Causal attention forward, tile by tile, in PyTorch operations: never more than a tile of scores.

Source: Dao, "FlashAttention-2" (2023), algorithm 1.
"""

import torch
from torch import Tensor


def tiled_forward(q: Tensor, k: Tensor, v: Tensor, block: int) -> tuple[Tensor, Tensor]:
    """Result and log-sum-exp of causal attention; tiles above the diagonal are skipped.

    Args:
        q: Queries, (…, s, d).
        k: Keys, the same shape.
        v: Values, the same shape.
        block: Rows and columns of a tile; the last may be smaller.
    """
    seq_len = q.shape[-2]
    out, lse = torch.empty_like(q), q.new_empty(q.shape[:-1])
    for start in range(0, seq_len, block):
        here = slice(start, min(start + block, seq_len))
        maximum = q.new_full((*q.shape[:-2], here.stop - start, 1), -torch.inf)
        total, summed = torch.zeros_like(maximum), torch.zeros_like(q[..., here, :])
        for before in range(0, here.stop, block):
            there = slice(before, min(before + block, seq_len))
            scores = q[..., here, :] @ k[..., there, :].mT * q.shape[-1] ** -0.5
            if before == start:  # on the diagonal
                is_later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).triu(1)
                scores = scores.masked_fill(is_later, -torch.inf)
            higher = torch.maximum(maximum, scores.amax(-1, keepdim=True))
            weights, shrink = torch.exp(scores - higher), torch.exp(maximum - higher)
            total = total * shrink + weights.sum(-1, keepdim=True)
            summed = summed * shrink + weights @ v[..., there, :]
            maximum = higher
        out[..., here, :] = summed / total
        lse[..., here] = (maximum + total.log())[..., 0]
    return out, lse
