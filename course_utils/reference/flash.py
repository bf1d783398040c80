"""Causal attention in tiles of PyTorch operations, with a backward pass that makes weights again.

Queries, keys and values have the shape (…, s, d). Only they, the result and the log-sum-exp of each
row are kept; tiles above the diagonal are never computed.

Source: Dao, "FlashAttention-2" (2023), algorithms 1 and 2.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

Forward = Callable[[Tensor, Tensor, Tensor, int], tuple[Tensor, Tensor]]


def flash_attention(forward: Forward, q: Tensor, k: Tensor, v: Tensor, block: int) -> Tensor:
    """Causal attention, of which the weights are made again in the backward pass."""
    out: Tensor = _Flash.apply(forward, block, q, k, v)  # type: ignore[no-untyped-call]
    return out


class _Flash(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, forward: Forward, block: int, *qkv: Tensor) -> Tensor:
        q, k, v = qkv
        out, lse = forward(q, k, v, block)
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.block = block
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, out, lse = ctx.saved_tensors
        scale, delta = q.shape[-1] ** -0.5, (grad * out).sum(-1, keepdim=True)
        grad_q, grad_k, grad_v = (torch.zeros_like(each) for each in (q, k, v))
        for here, there in visited(q.shape[-2], ctx.block):
            of_tile = q[..., here, :] @ k[..., there, :].mT * scale
            of_tile = hide_later(of_tile, here.start, there.start)
            weights = torch.exp(of_tile - lse[..., here, None])
            grad_v[..., there, :] += weights.mT @ grad[..., here, :]
            of_weights = grad[..., here, :] @ v[..., there, :].mT
            of_scores = weights * (of_weights - delta[..., here, :]) * scale
            grad_q[..., here, :] += of_scores @ k[..., there, :]
            grad_k[..., there, :] += of_scores.mT @ q[..., here, :]
        return None, None, grad_q, grad_k, grad_v


def visited(seq_len: int, block: int) -> Iterator[tuple[slice, slice]]:
    """Tiles of queries and keys on the diagonal and below it."""
    for start in range(0, seq_len, block):
        for before in range(0, start + 1, block):
            yield (
                slice(start, min(start + block, seq_len)),
                slice(before, min(before + block, seq_len)),
            )


def hide_later(scores: Tensor, first_query: int, first_key: int) -> Tensor:
    """Minus infinity wherever the key of a tile comes after the query."""
    num_queries, num_keys = scores.shape[-2:]
    if first_key + num_keys - 1 <= first_query:
        return scores
    queries = torch.arange(first_query, first_query + num_queries, device=scores.device)
    keys = torch.arange(first_key, first_key + num_keys, device=scores.device)
    return scores.masked_fill(keys > queries[:, None], -torch.inf)
