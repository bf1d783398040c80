"""The layers of today's transformers: norms, attention, feed-forward blocks.

Every module takes its sizes from a `ModelConfig` and can be built on the CPU, with fake tensors or
on the meta device; the last two allocate nothing. Each is built in its final precision: modules of
fake tensors cannot be converted.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from course_utils.configs import DEFAULT_KERNELS, Kernels, LatentAttention, ModelConfig
from course_utils.reference.attention import attend, attend_with
from course_utils.reference.fused import RMSNorm, gated, rotate

__all__ = [
    "FeedForward",
    "GroupedAttention",
    "MultiHeadLatentAttention",
    "attend",
    "linear",
    "norm",
]


def linear(
    in_size: int, out_size: int, model: ModelConfig, device: str, dtype: torch.dtype
) -> nn.Linear:
    """A linear layer, with a bias if the model has biases."""
    return nn.Linear(in_size, out_size, bias=model.has_biases, device=device, dtype=dtype)


def norm(size: int, model: ModelConfig, device: str, dtype: torch.dtype) -> nn.Module:
    """LayerNorm for models with biases (GPT), else RMSNorm."""
    if model.has_biases:
        return nn.LayerNorm(size, device=device, dtype=dtype)
    return RMSNorm(size, device, dtype)


class GroupedAttention(nn.Module):
    """Attention with fewer key and value heads than query heads (Ainslie et al. 2023)."""

    def __init__(
        self,
        model: ModelConfig,
        device: str,
        dtype: torch.dtype = torch.float32,
        kernels: Kernels = DEFAULT_KERNELS,
    ) -> None:
        super().__init__()
        h, d = model.hidden_size, model.head_dim
        self.model, self.kernels = model, kernels
        self.query = linear(h, model.num_heads * d, model, device, dtype)
        self.key = linear(h, model.num_kv_heads * d, model, device, dtype)
        self.value = linear(h, model.num_kv_heads * d, model, device, dtype)
        self.output = linear(model.num_heads * d, h, model, device, dtype)

    def forward(self, x: Tensor) -> Tensor:
        """From (b, s, h) to (b, s, h)."""
        q, k, v = (
            project(x).unflatten(-1, (-1, self.model.head_dim))
            for project in (self.query, self.key, self.value)
        )
        if not self.model.num_positions:
            q, k = rotate(q), rotate(k)
        out: Tensor = self.output(attend_with(self.kernels, q, k, v, self.training))
        return out


class MultiHeadLatentAttention(nn.Module):
    """Attention through small latent vectors (DeepSeek-V2, section 2.1), in its training form.

    Keys and values of all heads come from one vector of `kv_rank` numbers: with the rotary key
    that all heads share, this is all that a KV cache would hold.
    """

    def __init__(
        self,
        model: ModelConfig,
        sizes: LatentAttention,
        device: str,
        dtype: torch.dtype = torch.float32,
        kernels: Kernels = DEFAULT_KERNELS,
    ) -> None:
        """Projections down to the latent vectors, up to the heads, and out."""
        super().__init__()
        h, a = model.hidden_size, model.num_heads
        self.sizes, self.num_heads, self.kernels = sizes, a, kernels
        self.query_down = linear(h, sizes.q_rank, model, device, dtype)
        self.query_norm = norm(sizes.q_rank, model, device, dtype)
        query_width = sizes.nope_head_dim + sizes.rope_head_dim
        self.query_up = linear(sizes.q_rank, a * query_width, model, device, dtype)
        self.kv_down = linear(h, sizes.kv_rank + sizes.rope_head_dim, model, device, dtype)
        self.kv_norm = norm(sizes.kv_rank, model, device, dtype)
        kv_width = sizes.nope_head_dim + sizes.value_head_dim
        self.kv_up = linear(sizes.kv_rank, a * kv_width, model, device, dtype)
        self.output = linear(a * sizes.value_head_dim, h, model, device, dtype)

    def forward(self, x: Tensor) -> Tensor:
        """From (b, s, h) to (b, s, h)."""
        sizes, a = self.sizes, self.num_heads
        q = self.query_up(self.query_norm(self.query_down(x))).unflatten(-1, (a, -1))
        q_nope, q_rope = q.split((sizes.nope_head_dim, sizes.rope_head_dim), dim=-1)
        latent, k_rope = self.kv_down(x).split((sizes.kv_rank, sizes.rope_head_dim), dim=-1)
        kv = self.kv_up(self.kv_norm(latent)).unflatten(-1, (a, -1))
        k_nope, v = kv.split((sizes.nope_head_dim, sizes.value_head_dim), dim=-1)
        k_rope = rotate(k_rope[:, :, None]).expand(-1, -1, a, -1)
        q = torch.cat((q_nope, rotate(q_rope)), dim=-1)
        k = torch.cat((k_nope, k_rope), dim=-1)
        out: Tensor = self.output(attend_with(self.kernels, q, k, v, self.training))
        return out


class FeedForward(nn.Module):
    """Two matrices with GELU (GPT) or three with a gate (SwiGLU, Shazeer 2020)."""

    def __init__(
        self,
        model: ModelConfig,
        ffn_size: int,
        device: str,
        dtype: torch.dtype = torch.float32,
        kernels: Kernels = DEFAULT_KERNELS,
    ) -> None:
        """Up and down projections, and a gate if the model is gated."""
        super().__init__()
        h = model.hidden_size
        self.kernels = kernels
        self.up = linear(h, ffn_size, model, device, dtype)
        self.gate = linear(h, ffn_size, model, device, dtype) if model.is_gated else None
        self.down = linear(ffn_size, h, model, device, dtype)

    def forward(self, x: Tensor) -> Tensor:
        """From (b, s, h) to (b, s, h)."""
        out: Tensor = self.down(self._inner(x))
        return out

    def _inner(self, x: Tensor) -> Tensor:
        if self.gate is None:
            return F.gelu(self.up(x))
        return gated(self.gate(x), self.up(x), self.kernels)
