"""Attention in the order of the first FlashAttention, whose traffic the course compares."""

from collections.abc import Sequence

import torch

from course_utils.reference.tiled_attention import Array, Memory, _tiles


def flash_forward_keys_outer(
    machine: Memory, arrays: Sequence[Array], block_q: int, block_k: int
) -> None:
    """The order of the first FlashAttention: results go to and fro for each tile of keys.

    Its arrays: q, k, v, out, lse.
    """
    q, k, v, out, lse = arrays
    scale = q.shape[1] ** -0.5
    for number, there in enumerate(_tiles(k, block_k)):
        keys, values = machine.load(k[there]), machine.load(v[there])
        for here in _tiles(q, block_q):
            scores = machine.load(q[here]) @ keys.mT * scale
            new_lse = scores.logsumexp(1)
            if number:
                old_lse = machine.load(lse[here])
                new_lse = torch.logaddexp(old_lse, new_lse)
                shrink = torch.exp(old_lse - new_lse)[:, None]
                summed = machine.load(out[here]) * shrink
                summed = summed + torch.exp(scores - new_lse[:, None]) @ values
            else:
                summed = torch.exp(scores - new_lse[:, None]) @ values
            machine.store(summed, out[here])
            machine.store(new_lse, lse[here])
