"""What several checks of this unit need."""

import json
from functools import cache
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from course_utils.checks.spec import model_of
from course_utils.instruments import FlopCount, count_flops
from course_utils.reference import Transformer

SMALL_HIDDEN_SIZE = 512


def meta(*shape: int) -> torch.Tensor:
    """A tensor of a shape, without numbers."""
    return torch.empty(*shape, device="meta")


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
