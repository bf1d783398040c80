"""Softmax-weighted sums over blocks that come one at a time, and over parts that were made apart.

Besides the sum they keep one number per row, the log-sum-exp of its scores: with it, results over
different keys can be put together, and a backward pass can make every weight again.

Source: Milakov and Gimelshein, "Online normalizer calculation for softmax" (2018); Dao et al.,
"FlashAttention" (2022), section 3.1.
"""

from collections.abc import Iterable

import torch
from torch import Tensor

NOTHING = -torch.inf
"""The log-sum-exp of no key at all."""


def online_softmax(blocks: Iterable[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    """Sums of values, weighted by a softmax over all keys, one block of keys after the other.

    Args:
        blocks: Scores (rows, keys of the block) and values (keys of the block, width).

    Returns:
        The sums (rows, width) and the log-sum-exp of each row (rows,). A row without any key that
        it may see has zeros and minus infinity.
    """
    it = iter(blocks)
    scores, values = next(it)
    state = _start(scores, values)
    while True:
        state = _with_block(*state, scores, values)
        del scores, values  # the next block takes their place
        following = next(it, None)
        if following is None:
            break
        scores, values = following
        del following
    maximum, total, out = state
    return out / torch.where(total > 0, total, 1.0), (maximum + total.log())[:, 0]


def merge(out_a: Tensor, lse_a: Tensor, out_b: Tensor, lse_b: Tensor) -> tuple[Tensor, Tensor]:
    """Attention over two sets of keys, from the results over each.

    Args:
        out_a: Over the first keys, (rows, width).
        lse_a: Their log-sum-exp, (rows,).
        out_b: Over the other keys.
        lse_b: Their log-sum-exp.

    Returns:
        The result over all keys and its log-sum-exp.
    """
    lse = torch.logaddexp(lse_a, lse_b)
    shift = torch.where(lse == NOTHING, 0.0, lse)
    weight_a, weight_b = (torch.exp(each - shift)[:, None] for each in (lse_a, lse_b))
    return weight_a * out_a + weight_b * out_b, lse


def _start(scores: Tensor, values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Maximum, sum of exponentials and weighted sum of no key, for each row."""
    maximum = scores.new_full((len(scores), 1), NOTHING)
    return maximum, torch.zeros_like(maximum), scores.new_zeros(len(scores), values.shape[1])


def _with_block(
    maximum: Tensor, total: Tensor, out: Tensor, scores: Tensor, values: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The three after one more block."""
    higher = torch.maximum(maximum, scores.amax(1, keepdim=True))
    shift = torch.where(higher == NOTHING, 0.0, higher)  # minus infinity twice would give nan
    weights, shrink = torch.exp(scores - shift), torch.exp(maximum - shift)
    return higher, total * shrink + weights.sum(1, keepdim=True), out * shrink + weights @ values
