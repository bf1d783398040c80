"""The pieces of today's transformers: norms, rotary positions, attention, feed-forward blocks.

Every module takes the sizes it needs from a `ModelConfig` and can be built on the CPU or on the
meta device, where nothing is allocated.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from course_utils.configs import LatentAttention, ModelConfig

ROPE_BASE = 10_000.0


def linear(in_size: int, out_size: int, model: ModelConfig, device: str) -> nn.Linear:
    """A linear layer, with a bias where the model has biases."""
    return nn.Linear(in_size, out_size, bias=model.has_biases, device=device)


def norm(size: int, model: ModelConfig, device: str) -> nn.Module:
    """LayerNorm for GPT, RMSNorm for the models without biases."""
    return (
        nn.LayerNorm(size, device=device) if model.has_biases else nn.RMSNorm(size, device=device)
    )


def rotate(x: Tensor) -> Tensor:
    """Rotary positions (Su et al. 2021): turn each pair of numbers by an angle that grows with s.

    Args:
        x: Queries or keys, shape (b, s, a, d); d is even.
    """
    seq_len, head_dim = x.shape[1], x.shape[3]
    pair = torch.arange(0, head_dim, 2, device=x.device)
    angle = torch.arange(seq_len, device=x.device)[:, None] / ROPE_BASE ** (pair / head_dim)
    cos, sin = angle.cos()[:, None].to(x.dtype), angle.sin()[:, None].to(x.dtype)
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1).flatten(-2)


def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Causal attention of queries (b, s, a, d) to keys and values (b, s, a_kv, d): (b, s, a d)."""
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    out = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    return out.transpose(1, 2).flatten(-2)


class GroupedAttention(nn.Module):
    """Attention with fewer key and value heads than query heads (Ainslie et al. 2023)."""

    def __init__(self, model: ModelConfig, device: str) -> None:
        """Four projections: queries, keys, values, output."""
        super().__init__()
        h, d = model.hidden_size, model.head_dim
        self.model = model
        self.query = linear(h, model.num_heads * d, model, device)
        self.key = linear(h, model.num_kv_heads * d, model, device)
        self.value = linear(h, model.num_kv_heads * d, model, device)
        self.output = linear(model.num_heads * d, h, model, device)

    def forward(self, x: Tensor) -> Tensor:
        """From (b, s, h) to (b, s, h)."""
        q, k, v = (
            project(x).unflatten(-1, (-1, self.model.head_dim))
            for project in (self.query, self.key, self.value)
        )
        if not self.model.num_positions:
            q, k = rotate(q), rotate(k)
        out: Tensor = self.output(attend(q, k, v))
        return out


class MultiHeadLatentAttention(nn.Module):
    """Attention through small latent vectors (DeepSeek-V2, section 2.1), as it is trained.

    Keys and values of all heads come from one vector of `kv_rank` numbers, which is all that a
    cache would keep beside one rotary key for all heads.
    """

    def __init__(self, model: ModelConfig, sizes: LatentAttention, device: str) -> None:
        """Projections down to the latent vectors, up to the heads, and out."""
        super().__init__()
        h, a = model.hidden_size, model.num_heads
        self.sizes, self.num_heads = sizes, a
        self.query_down = linear(h, sizes.q_rank, model, device)
        self.query_norm = norm(sizes.q_rank, model, device)
        query_width = sizes.nope_head_dim + sizes.rope_head_dim
        self.query_up = linear(sizes.q_rank, a * query_width, model, device)
        self.kv_down = linear(h, sizes.kv_rank + sizes.rope_head_dim, model, device)
        self.kv_norm = norm(sizes.kv_rank, model, device)
        kv_width = sizes.nope_head_dim + sizes.value_head_dim
        self.kv_up = linear(sizes.kv_rank, a * kv_width, model, device)
        self.output = linear(a * sizes.value_head_dim, h, model, device)

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
        out: Tensor = self.output(attend(q, k, v))
        return out


class FeedForward(nn.Module):
    """Two matrices with GELU (GPT) or three with a gate (SwiGLU, Shazeer 2020)."""

    def __init__(self, model: ModelConfig, ffn_size: int, device: str) -> None:
        """Up, down, and for a gated block the gate."""
        super().__init__()
        h = model.hidden_size
        self.up = linear(h, ffn_size, model, device)
        self.gate = linear(h, ffn_size, model, device) if model.is_gated else None
        self.down = linear(ffn_size, h, model, device)

    def forward(self, x: Tensor) -> Tensor:
        """From (b, s, h) to (b, s, h)."""
        inner = F.gelu(self.up(x)) if self.gate is None else F.silu(self.gate(x)) * self.up(x)
        out: Tensor = self.down(inner)
        return out
