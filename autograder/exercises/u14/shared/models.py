"""Small models, and what is counted while they run."""

import functools
import json
import random
from typing import Any

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from autograder.checking.case_objects import model_of
from course_utils.instruments import count_flops
from course_utils.reference import Block
from course_utils.reference.layers import attend

LLAMA_1B = {
    **{"num_layers": 16, "hidden_size": 2048, "num_heads": 32, "num_kv_heads": 8},
    **{"ffn_size": 8192, "vocab_size": 128256, "is_tied": True},
}


def small_llama(rng: random.Random, **fixed: int) -> dict[str, Any]:
    """Sizes of a Llama; some heads share their keys and values."""
    kv_heads, group = rng.choice((1, 2, 3)), rng.choice((1, 2, 4))
    model = {
        "num_layers": rng.randint(2, 6),
        "hidden_size": 8 * kv_heads * group * rng.randint(1, 3),
        "num_heads": kv_heads * group,
        "num_kv_heads": kv_heads,
        "ffn_size": rng.randrange(20, 199, 2),
        "vocab_size": rng.randrange(100, 999, 2),
        "is_tied": rng.random() < 1 / 2,
    }
    return model | fixed


def counted_forward(model: dict[str, Any], seq_len: int) -> dict[str, int]:
    """FLOPs of one token's forward pass, counted while a layer and the head run.

    Returns:
        ``whole``, and ``attention`` of it.
    """
    return dict(_counted_forward(json.dumps(model), seq_len))


@functools.cache
def _counted_forward(model: str, seq_len: int) -> dict[str, int]:
    sizes = model_of(json.loads(model))
    block = Block(sizes, 0, device="meta")
    head = nn.Linear(sizes.hidden_size, sizes.vocab_size, bias=False, device="meta")
    x = torch.empty(1, seq_len, sizes.hidden_size, device="meta")
    q, kv = (
        torch.empty(1, seq_len, heads, sizes.head_dim, device="meta")
        for heads in (sizes.num_heads, sizes.num_kv_heads)
    )
    with sdpa_kernel(SDPBackend.MATH), torch.no_grad():
        of_block, of_head, of_core = (
            count_flops(call).forward_flops
            for call in (lambda: block(x), lambda: head(x), lambda: attend(q, kv, kv))
        )
    return {
        "whole": (sizes.num_layers * of_block + of_head) // seq_len,
        "attention": sizes.num_layers * of_core // seq_len,
    }
