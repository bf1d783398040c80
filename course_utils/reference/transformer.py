"""Whole models, from token ids to logits: GPT and Llama blocks, latent attention, experts.

>>> model = Transformer(preset("Llama-3-8B"), device="meta")
>>> sum(p.numel() for p in model.parameters())
8030261248
"""

import torch
from torch import Tensor, nn

from course_utils.configs import ModelConfig
from course_utils.reference.experts import MixtureOfExperts
from course_utils.reference.layers import (
    FeedForward,
    GroupedAttention,
    MultiHeadLatentAttention,
    norm,
)


class Block(nn.Module):
    """Attention and feed-forward, each behind a norm and beside a residual."""

    def __init__(self, model: ModelConfig, layer: int, device: str) -> None:
        """Choose the kinds of attention and feed-forward that the sizes ask for."""
        super().__init__()
        self.attention_norm = norm(model.hidden_size, model, device)
        self.attention: nn.Module = (
            MultiHeadLatentAttention(model, model.latent_attention, device)
            if model.latent_attention
            else GroupedAttention(model, device)
        )
        self.ffn_norm = norm(model.hidden_size, model, device)
        self.ffn: nn.Module = (
            MixtureOfExperts(model, model.experts, device)
            if model.experts and layer >= model.experts.num_dense_layers
            else FeedForward(model, model.ffn_size, device)
        )

    def forward(self, x: Tensor) -> Tensor:
        """From (b, s, h) to (b, s, h)."""
        x = x + self.attention(self.attention_norm(x))
        out: Tensor = x + self.ffn(self.ffn_norm(x))
        return out


class Transformer(nn.Module):
    """A decoder-only model; its output head shares the embedding's matrix where it is tied."""

    def __init__(self, model: ModelConfig, device: str = "cpu") -> None:
        """Build all layers on a device; ``"meta"`` allocates nothing."""
        super().__init__()
        h, v = model.hidden_size, model.vocab_size
        self.embedding = nn.Embedding(v, h, device=device)
        positions = model.num_positions
        self.positions = nn.Embedding(positions, h, device=device) if positions else None
        layers = range(model.num_layers)
        self.blocks = nn.ModuleList([Block(model, layer, device) for layer in layers])
        self.final_norm = norm(h, model, device)
        self.head = nn.Linear(h, v, bias=False, device=device)
        if model.is_tied:
            self.head.weight = self.embedding.weight

    def forward(self, token_ids: Tensor) -> Tensor:
        """From token ids (b, s) to logits (b, s, v).

        Raises:
            ValueError: If the ids lie on another device than the model.
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
