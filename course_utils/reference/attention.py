"""Causal attention: fused, or materialised with every score in memory.

Both take queries (b, s, a, d) and keys and values (b, s, a_kv, d), where each head of keys and
values serves a / a_kv query heads, and return (b, s, a d).
"""

from functools import partial

import torch
from torch import Tensor
from torch.nn import functional as F

from course_utils.configs import Kernels
from course_utils.reference.recomputation import checkpoint


def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Fused attention: keeps queries, keys, values, the result and one number per query.

    On the meta device, and on the CPU where values are not as wide as keys (latent attention),
    there is no fused kernel: every score is computed and kept.
    """
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    out = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    return out.transpose(1, 2).flatten(-2)


def attend_materialised(q: Tensor, k: Tensor, v: Tensor, dropout_fraction: float = 0.0) -> Tensor:
    """Materialised attention: keeps every weight, and with dropout its mask and its result too."""
    group = q.shape[2] // k.shape[2]
    if group > 1:  # repeating copies
        k, v = (x.repeat_interleave(group, dim=2) for x in (k, v))
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5  # (b, a, s, s)
    mask = scores.new_full(scores.shape[-2:], float("-inf")).triu(1)  # adding keeps nothing
    weights = drop((scores + mask).softmax(-1), dropout_fraction)
    return (weights @ v).transpose(1, 2).flatten(-2)


def attend_with(
    kernels: Kernels, q: Tensor, k: Tensor, v: Tensor, is_training: bool = True
) -> Tensor:
    """Attention with the chosen kernels; dropout is for training only."""
    fraction = kernels.dropout_fraction * is_training
    materialised = partial(attend_materialised, dropout_fraction=fraction)
    core = attend if kernels.is_attention_fused else materialised
    return checkpoint(core, q, k, v) if kernels.is_attention_recomputed else core(q, k, v)


def drop(x: Tensor, fraction: float) -> Tensor:
    """Dropout that keeps one byte per element on every device.

    `F.dropout` keeps a mask in the input's dtype on a CPU and a mask of bytes on a GPU.
    """
    return torch.native_dropout(x, fraction, True)[0] if fraction else x
