"""How do queries meet keys and values? Fused, or with every score in memory.

Both take queries (b, s, a, d) and keys and values (b, s, a_kv, d), where each head of keys and
values serves a / a_kv query heads, and give (b, s, a d). Both are causal.
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
    there is no fused kernel, and every score is made and kept.
    """
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    out = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    return out.transpose(1, 2).flatten(-2)


def attend_materialised(q: Tensor, k: Tensor, v: Tensor, dropout_fraction: float = 0.0) -> Tensor:
    """Attention written out: keeps every weight, and with dropout its mask and its result too."""
    k, v = (_repeated(x, q.shape[2] // x.shape[2]) for x in (k, v))
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5  # (b, a, s, s)
    hidden = scores.new_full(scores.shape[-2:], float("-inf")).triu(1)  # adding keeps nothing
    weights = drop((scores + hidden).softmax(-1), dropout_fraction)
    return (weights @ v).transpose(1, 2).flatten(-2)


def attend_with(
    kernels: Kernels, q: Tensor, k: Tensor, v: Tensor, is_training: bool = True
) -> Tensor:
    """The attention that the kernels ask for; dropout is for training only."""
    fraction = kernels.dropout_fraction * is_training
    core = attend if kernels.is_attention_fused else partial(_materialised, fraction)
    return checkpoint(core, q, k, v) if kernels.is_attention_recomputed else core(q, k, v)


def _materialised(dropout_fraction: float, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return attend_materialised(q, k, v, dropout_fraction)


def _repeated(x: Tensor, times: int) -> Tensor:
    """Each head of (b, s, a_kv, d) several times; a copy where it is more than once."""
    return x if times == 1 else x.repeat_interleave(times, dim=2)


def drop(x: Tensor, fraction: float) -> Tensor:
    """Dropout that keeps one byte per number on every device.

    `F.dropout` keeps a mask as wide as its input on a CPU and one of bytes on a GPU.
    """
    return torch.native_dropout(x, fraction, True)[0] if fraction else x
