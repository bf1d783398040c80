"""Small models, and what is counted while they run."""

import random
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from autograder.checking.case_objects import model_of
from course_utils.instruments import count_flops
from course_utils.reference import Transformer
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
    """FLOPs of one token's forward pass: of everything, and of attention alone."""
    sizes = model_of(model)
    built = Transformer(sizes, device="meta")
    ids = torch.zeros(1, seq_len, dtype=torch.long, device="meta")
    with sdpa_kernel(SDPBackend.MATH):
        whole = count_flops(lambda: built(ids)).forward_flops
        q, kv = (
            torch.empty(1, seq_len, heads, sizes.head_dim, device="meta", requires_grad=True)
            for heads in (sizes.num_heads, sizes.num_kv_heads)
        )
        core = count_flops(lambda: attend(q, kv, kv)).forward_flops
    return {"whole": whole // seq_len, "attention": sizes.num_layers * core // seq_len}


def counted_parameters(model: dict[str, Any]) -> int:
    """Numbers in all parameters, tensor by tensor; a tied one once."""
    return sum(each.numel() for each in Transformer(model_of(model), device="meta").parameters())
