"""Check of the bytes of a cache, against what the layers of a real model must keep."""

import random
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from autograder.checking.case_objects import model_of
from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.exercises.model_answers import mistakes_of
from course_utils.instruments import fake_tensors
from course_utils.reference.layers import GroupedAttention, MultiHeadLatentAttention

NAMES = ("model", "num_sequences", "context", "element_bytes", "window")
DTYPES = {1: torch.int8, 2: torch.bfloat16, 4: torch.float32, 8: torch.float64}
WORKED = {
    **{"num_layers": 2, "hidden_size": 12, "num_heads": 4, "num_kv_heads": 2},
    **{"ffn_size": 5, "vocab_size": 9},
}
HEADS = ((4, 4, 6), (6, 2, 5), (8, 1, 4), (6, 3, 10))  # a, a_kv, d


def cache_cases(seed: int) -> list[Case]:
    """Own keys, shared ones, one for all, latents; windows shorter and longer than the context.

    The last one is larger than a float can count.
    """
    rng = random.Random(seed)
    cases = [(WORKED, 5, 7, 2, 0), (WORKED, 5, rng.randint(6, 60), 2, 4)]
    for number in range(20):
        context = rng.randint(9, 60)
        window = (0, rng.randint(2, 8), 0, context + rng.randint(1, 9))[number // 5]
        cases.append((_model(rng, number), rng.randint(2, 6), context, 2 ** (number % 4), window))
    cases += [(_model(rng, 4), 3, 2**52 + 1, 4, 0), (_model(rng, 1), 3, 2**52 + 1, 4, 0)]
    return [dict(zip(NAMES, each, strict=True)) for each in cases]


def _model(rng: random.Random, number: int) -> dict[str, Any]:
    heads, kv_heads, head_dim = HEADS[number % 5 % 4]
    sizes: dict[str, Any] = {
        **{"num_layers": rng.randint(2, 4), "hidden_size": rng.choice((16, 24, 32))},
        **{"num_heads": heads, "num_kv_heads": kv_heads, "head_dim": head_dim},
        **{"ffn_size": rng.randint(17, 70), "vocab_size": rng.randint(201, 399)},
    }
    if number % 5 == 4:
        sizes["latent_attention"] = {
            **{"kv_rank": rng.randint(9, 20), "q_rank": rng.randint(21, 30)},
            **{"nope_head_dim": rng.randint(3, 7), "rope_head_dim": 2 * rng.randint(1, 3)},
            "value_head_dim": rng.randint(3, 7),
        }
    return sizes


def kept_bytes(
    model: dict[str, Any], num_sequences: int, context: int, element_bytes: int, window: int
) -> int:
    """Bytes of what a later token needs of the earlier ones, layer by layer, on fake tensors."""
    with fake_tensors():
        sizes = model_of(model)
        x = torch.empty(num_sequences, context, sizes.hidden_size)
        kept = [
            each[:, -window:].to(DTYPES[element_bytes], copy=True)
            for _ in range(sizes.num_layers)
            for each in _remembered(_attention(model), x)
        ]
        return sum(each.nbytes for each in kept)


def _attention(model: dict[str, Any]) -> nn.Module:
    sizes = model_of(model)
    if sizes.latent_attention is not None:
        return MultiHeadLatentAttention(sizes, sizes.latent_attention, "cpu")
    return GroupedAttention(sizes, "cpu")


def _remembered(attention: nn.Module, x: Tensor) -> Iterator[Tensor]:
    """Results of the projections that a query of a later token is compared with."""
    if isinstance(attention, MultiHeadLatentAttention):
        yield attention.kv_down(x)
    elif isinstance(attention, GroupedAttention):
        yield from (attention.key(x), attention.value(x))


CHECK = Check(
    cases=cache_cases,
    judge=EqualTo(kept_bytes, *mistakes_of("u13-cache-bytes")),
    fallback="course_utils.formulas.serving.cache_bytes",
)
