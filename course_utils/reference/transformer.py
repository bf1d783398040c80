"""Whole models, from token ids to logits: GPT and Llama blocks, latent attention, experts.

>>> model = Transformer(preset("Llama-3-8B"), device="meta")
>>> sum(p.numel() for p in model.parameters())
8030261248
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from course_utils.configs import DEFAULT_KERNELS, Kernels, ModelConfig
from course_utils.reference.attention import drop
from course_utils.reference.experts import MixtureOfExperts
from course_utils.reference.layers import (
    FeedForward,
    GroupedAttention,
    MultiHeadLatentAttention,
    norm,
)


class Block(nn.Module):
    """Attention and feed-forward, each with a norm before it and a residual around it."""

    def __init__(
        self,
        model: ModelConfig,
        layer: int,
        device: str = "cpu",
        dtype: torch.dtype = torch.float32,
        kernels: Kernels = DEFAULT_KERNELS,
    ) -> None:
        """Choose the kinds of attention and feed-forward from the config."""
        super().__init__()
        self.dropout_fraction = kernels.dropout_fraction
        self.attention_norm = norm(model.hidden_size, model, device, dtype)
        self.attention: nn.Module = (
            MultiHeadLatentAttention(model, model.latent_attention, device, dtype, kernels)
            if model.latent_attention
            else GroupedAttention(model, device, dtype, kernels)
        )
        self.ffn_norm = norm(model.hidden_size, model, device, dtype)
        self.ffn: nn.Module = (
            MixtureOfExperts(model, model.experts, device, dtype, kernels)
            if model.experts and layer >= model.experts.num_dense_layers
            else FeedForward(model, model.ffn_size, device, dtype, kernels)
        )

    def forward(self, x: Tensor) -> Tensor:
        """From (b, s, h) to (b, s, h)."""
        fraction = self.dropout_fraction * self.training
        x = x + drop(self.attention(self.attention_norm(x)), fraction)
        return x + drop(self.ffn(self.ffn_norm(x)), fraction)


class Transformer(nn.Module):
    """A decoder-only model; if it is tied, its output head is the embedding's matrix."""

    def __init__(
        self,
        model: ModelConfig,
        device: str = "cpu",
        dtype: torch.dtype = torch.float32,
        kernels: Kernels = DEFAULT_KERNELS,
    ) -> None:
        """Build all layers on a device; ``"meta"`` allocates nothing."""
        super().__init__()
        h, v = model.hidden_size, model.vocab_size
        self.embedding = nn.Embedding(v, h, device=device, dtype=dtype)
        positions = model.num_positions
        self.positions = (
            nn.Embedding(positions, h, device=device, dtype=dtype) if positions else None
        )
        layers = range(model.num_layers)
        self.blocks = nn.ModuleList(Block(model, n, device, dtype, kernels) for n in layers)
        self.final_norm = norm(h, model, device, dtype)
        self.head = nn.Linear(h, v, bias=False, device=device, dtype=dtype)
        if model.is_tied:
            self.head.weight = self.embedding.weight

    def forward(self, token_ids: Tensor) -> Tensor:
        """From token ids (b, s) to logits (b, s, v).

        Raises:
            ValueError: If the ids are on another device than the model.
        """
        self._require_same_device(token_ids)
        x = self.embedding(token_ids)
        if self.positions is not None:
            x = x + self.positions(torch.arange(x.shape[1], device=x.device))
        for block in self.blocks:
            x = block(x)
        logits: Tensor = self.head(self.final_norm(x))
        return logits

    def _require_same_device(self, token_ids: Tensor) -> None:
        here, there = self.embedding.weight.device, token_ids.device
        if here != there:
            raise ValueError(
                f"the model lies on {here} and the token ids lie on {there}: make the ids with "
                f"device={str(here)!r}"
            )


def token_loss(logits: Tensor, targets: Tensor, is_fp32: bool = False) -> Tensor:
    """Mean cross-entropy of all tokens; keeps one number per token and vocabulary entry.

    Args:
        logits: Shape (b, s, v).
        targets: The next token of each, shape (b, s).
        is_fp32: Whether to compute in fp32, whatever the precision of the logits.
    """
    logits = logits.float() if is_fp32 else logits
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())
