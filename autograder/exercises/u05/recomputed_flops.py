"""Check of the FLOPs that recomputation costs."""

import random
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint as torch_checkpoint

from autograder.checking.case_objects import model_of
from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.exercises.model_answers import mistakes_of
from course_utils.configs import Kernels
from course_utils.instruments import count_flops
from course_utils.reference import Block
from course_utils.reference.attention import attend_materialised
from course_utils.reference.recomputation import checkpoint

# Materialised attention without dropout ends in a product, which stopping early leaves out.
MATERIALISED = Kernels(is_attention_fused=False)
LARGE = 1024  # layers this wide run on the meta device, which is slower for small ones


def flops_cases(seed: int) -> list[Case]:
    """GPT and Llama; own, grouped and single keys and values; heads of any width; large layers."""
    rng = random.Random(seed)
    cases = [_case((4, 2, 2, 3), is_gpt=False, num_sequences=1, seq_len=2)]
    for kv, group in ((2, 1), (rng.randint(2, 3), 2), (1, rng.randint(3, 5))):
        for num_sequences in (1, rng.randint(2, 3), rng.randint(4, 5)):
            for is_gpt in (True, False):
                heads, head_dim = kv * group, rng.choice((2, 4, 6))
                shared = heads if is_gpt else kv
                sizes = (heads * head_dim, heads, shared, rng.randrange(31, 99, 2))
                cases.append(_case(sizes, is_gpt, num_sequences, rng.randrange(3, 29, 2)))
    for wider in (2, -2):
        own = _case((24, 4, 2, rng.randrange(31, 99, 2)), False, rng.randint(2, 3), 7)
        own["model"]["head_dim"] = 6 + wider
        cases.append(own)
    cases.append(_case((2048, 32, 8, 8192), False, 1, 64 * rng.randint(16, 96)))
    beyond_a_float = _case((8191, 63, 7, 28671), False, rng.randrange(65, 99, 2), 131_071)
    beyond_a_float["model"]["head_dim"] = 126
    return [*cases, beyond_a_float]


def _case(sizes: tuple[int, int, int, int], is_gpt: bool, num_sequences: int, seq_len: int) -> Case:
    names = ("hidden_size", "num_heads", "num_kv_heads", "ffn_size")
    model: dict[str, Any] = {"num_layers": seq_len % 3 + 1, **dict(zip(names, sizes, strict=True))}
    model["vocab_size"] = 7
    if is_gpt:
        model |= {"is_gated": False, "has_biases": True, "num_positions": 32}
    return {"model": model, "num_sequences": num_sequences, "seq_len": seq_len}


def measured_recomputed_flops(
    model: dict[str, Any], num_sequences: int, seq_len: int
) -> dict[str, int]:
    """FLOPs that a real layer and a real attention core run again under two checkpoints.

    The smallest part comes first, so that the first difference is the simplest to explain.
    """
    sizes = model_of(model)
    device = "cpu" if sizes.hidden_size < LARGE else "meta"
    shape, layer = (num_sequences, seq_len), Block(sizes, 0, device, kernels=MATERIALISED)
    heads = (sizes.num_heads, sizes.num_kv_heads, sizes.num_kv_heads)
    x = torch.ones(*shape, sizes.hidden_size, device=device, requires_grad=True)
    qkv = [
        torch.ones(*shape, each, sizes.head_dim, device=device, requires_grad=True)
        for each in heads
    ]
    full, selective = _recomputed(layer, x), _recomputed(attend_materialised, *qkv)
    return {
        "selective_early": selective["early"],
        "selective": selective["whole"],
        "full_early": full["early"],
        "full": full["whole"],
    }


def _recomputed(call: Callable[..., Tensor], *tensors: Tensor) -> dict[str, int]:
    """FLOPs recomputed under the course's checkpoint, and under PyTorch's, which stops early."""
    ways = (call, partial(checkpoint, call), partial(torch_checkpoint, call, use_reentrant=False))
    plain, whole, early = (count_flops(partial(way, *tensors)).backward_flops for way in ways)
    return {"whole": whole - plain, "early": early - plain}


CHECK = Check(
    cases=flops_cases,
    judge=EqualTo(measured_recomputed_flops, *mistakes_of("u05-recomputed-flops")),
    fallback="course_utils.formulas.recomputation.recomputed_flops_of_layer",
    answers=("course_utils.instruments.flop_count", "torch.utils.flop_counter"),
)
