"""What several checks of this unit need."""

import json
from functools import cache
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from autograder.checking.case_objects import model_of
from course_utils.configs import ModelConfig
from course_utils.instruments import FlopCount, count_flops
from course_utils.reference import Transformer
from course_utils.reference.layers import attend

SMALL_HIDDEN_SIZE = 512


def meta(*shape: int) -> torch.Tensor:
    """A tensor of a shape, without numbers."""
    return torch.empty(*shape, device="meta")


SMALLEST = {
    "num_layers": 2,
    "hidden_size": 4,
    "num_heads": 1,
    "num_kv_heads": 1,
    "ffn_size": 3,
    "vocab_size": 5,
}
LLAMA_1B = {
    "num_layers": 16,
    "hidden_size": 2048,
    "num_heads": 32,
    "num_kv_heads": 8,
    "ffn_size": 8192,
    "vocab_size": 128256,
}


def one_layer(hidden_size: int, **sizes: Any) -> ModelConfig:
    """A model of one layer, of which only the named sizes matter."""
    others = {"num_layers": 1, "num_heads": 1, "ffn_size": 1, "vocab_size": 1}
    return ModelConfig(hidden_size=hidden_size, **{**others, **sizes})


def counted_core(sizes: ModelConfig, seq_len: int) -> int:
    """FLOPs of one layer's attention core for one sequence, as counted while it runs."""
    q = meta(1, seq_len, sizes.num_heads, sizes.head_dim)
    kv = meta(1, seq_len, sizes.num_kv_heads, sizes.head_dim)
    return count_flops(lambda: attend(q, kv, kv)).forward_flops


def counted_model(model: dict[str, Any], num_sequences: int, seq_len: int) -> FlopCount:
    """FLOPs of a whole model, forward and backward, as counted while it runs."""
    return _counted_model(json.dumps(model), num_sequences, seq_len)


@cache
def _counted_model(model: str, num_sequences: int, seq_len: int) -> FlopCount:
    """A small model runs on real tensors, which is faster; a large one on the meta device.

    On real tensors attention is materialised, as on the meta device: flash attention would
    recompute the scores in its backward pass.
    """
    sizes = model_of(json.loads(model))
    device = "cpu" if sizes.hidden_size < SMALL_HIDDEN_SIZE else "meta"
    built = Transformer(sizes, device=device)
    ids = torch.zeros(num_sequences, seq_len, dtype=torch.long, device=device)
    with sdpa_kernel(SDPBackend.MATH):
        return count_flops(lambda: built(ids))
