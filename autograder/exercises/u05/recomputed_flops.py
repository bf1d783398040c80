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
from autograder.checking.judges import EqualTo, Mistake
from course_utils.configs import Kernels, ModelConfig, RunConfig
from course_utils.formulas import recomputation
from course_utils.formulas.flops import forward_flops
from course_utils.instruments import count_flops
from course_utils.reference import Block
from course_utils.reference.attention import attend_materialised
from course_utils.reference.recomputation import checkpoint

# Materialised attention without dropout ends in a product, which stopping early leaves out.
MATERIALISED = Kernels(is_attention_fused=False)
LARGE = 1024  # layers this wide run on the meta device, which is slower for small ones


def flops_cases(seed: int) -> list[Case]:
    """GPT and Llama; own, grouped and single keys and values; the layer of Llama-3.2-1B."""
    rng = random.Random(seed)
    cases = [_case((4, 2, 2, 3), is_gpt=False, num_sequences=1, seq_len=2)]
    for kv, group in ((2, 1), (rng.randint(2, 3), 2), (1, rng.randint(3, 5))):
        for num_sequences in (1, rng.randint(2, 3), rng.randint(4, 5)):
            for is_gpt in (True, False):
                heads, head_dim = kv * group, rng.choice((2, 4, 6))
                shared = heads if is_gpt else kv
                sizes = (heads * head_dim, heads, shared, rng.randrange(31, 99, 2))
                cases.append(_case(sizes, is_gpt, num_sequences, rng.randrange(3, 29, 2)))
    return [*cases, _case((2048, 32, 8, 8192), False, 1, 4096)]


def _case(sizes: tuple[int, int, int, int], is_gpt: bool, num_sequences: int, seq_len: int) -> Case:
    names = ("hidden_size", "num_heads", "num_kv_heads", "ffn_size")
    model: dict[str, Any] = {"num_layers": 1, **dict(zip(names, sizes, strict=True))}
    model["vocab_size"] = 7
    if is_gpt:
        model |= {"is_gated": False, "has_biases": True, "num_positions": 32}
    return {"model": model, "num_sequences": num_sequences, "seq_len": seq_len}


def measured_recomputed_flops(
    model: dict[str, Any], num_sequences: int, seq_len: int
) -> dict[str, int]:
    """FLOPs that a real layer and a real attention core run again under two checkpoints."""
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
        "full": full["whole"],
        "full_early": full["early"],
        "selective": selective["whole"],
        "selective_early": selective["early"],
    }


def _recomputed(call: Callable[..., Tensor], *tensors: Tensor) -> dict[str, int]:
    """FLOPs recomputed under the course's checkpoint, and under PyTorch's, which stops early."""
    ways = (call, partial(checkpoint, call), partial(torch_checkpoint, call, use_reentrant=False))
    plain, whole, early = (count_flops(partial(way, *tensors)).backward_flops for way in ways)
    return {"whole": whole - plain, "early": early - plain}


def recomputed_flops(model: ModelConfig, num_sequences: int, seq_len: int) -> dict[str, int]:
    """The course's own answer."""
    run = RunConfig(micro_batch_size=num_sequences, seq_len=seq_len, kernels=MATERIALISED)
    return {
        policy + suffix: recomputation.recomputed_flops(model, run, policy, stops_early=early)
        for policy in ("full", "selective")
        for suffix, early in (("", False), ("_early", True))
    }


def _flops(**wrong: Callable[[ModelConfig, int, int], int]) -> Callable[..., dict[str, int]]:
    """A mistake in some parts, each from a model, a number of sequences and their length."""

    def formula(model: dict[str, Any], num_sequences: int, seq_len: int) -> dict[str, int]:
        m = model_of(model)
        return {part: each(m, num_sequences, seq_len) for part, each in wrong.items()}

    return formula


def _forward(m: ModelConfig, b: int, s: int) -> int:
    """All products of the layer's forward pass."""
    parts = forward_flops(m, b, s)
    return sum(parts.values()) - parts["head"]


def _product_of_scores(m: ModelConfig, b: int, s: int) -> int:
    """Queries with keys, or weights with values."""
    return 2 * b * m.num_heads * s * s * m.head_dim


def _output(m: ModelConfig, b: int, s: int) -> int:
    return 2 * b * s * m.num_heads * m.head_dim * m.hidden_size


def _down(m: ModelConfig, b: int, s: int) -> int:
    return 2 * b * s * m.ffn_size * m.hidden_size


def _with_own_keys(m: ModelConfig, b: int, s: int) -> int:
    missing = m.num_heads - m.num_kv_heads
    return _forward(m, b, s) + 4 * b * s * m.hidden_size * missing * m.head_dim


CHECK = Check(
    cases=flops_cases,
    reference=recomputed_flops,
    judge=EqualTo(
        measured_recomputed_flops,
        Mistake(
            "Your full recomputation takes three passes. Which of the three is it that runs again?",
            _flops(full=lambda *c: 3 * _forward(*c)),
        ),
        Mistake(
            "Your full recomputation is a whole backward pass. What does it compute again: "
            "gradients, or what they are made from?",
            _flops(full=lambda *c: 2 * _forward(*c)),
        ),
        Mistake(
            "Your full recomputation has no products of the scores. Is the attention core not a "
            "part of the layer?",
            _flops(full=lambda *c: _forward(*c) - 2 * _product_of_scores(*c)),
        ),
        Mistake(
            "Your full recomputation has one product with the scores, or half of both. How many "
            "are there, and does the exercise count the full square?",
            _flops(full=lambda *c: _forward(*c) - _product_of_scores(*c)),
        ),
        Mistake(
            "Your keys and values are made for every query head. How many heads do they have?",
            _flops(full=_with_own_keys),
        ),
        Mistake(
            "Your feed-forward block has two matrices, also where it is gated. How many has it "
            "then?",
            _flops(full=lambda m, b, s: _forward(m, b, s) - m.is_gated * _down(m, b, s)),
        ),
        Mistake(
            "Your full recomputation has the output head in it. Is the head in a layer?",
            _flops(
                full=lambda m, b, s: _forward(m, b, s) + 2 * b * s * m.hidden_size * m.vocab_size
            ),
        ),
        Mistake(
            "Your full recomputation stops nowhere early, and neither does the other. Which "
            "products give a result that no gradient of the layer needs?",
            _flops(full_early=_forward),
        ),
        Mistake(
            "You leave out the output projection. Is it the last product of the layer, and does "
            "nothing behind it need its result?",
            _flops(full_early=lambda *c: _forward(*c) - _output(*c)),
        ),
        Mistake(
            "You leave out the output projection as well as the down projection. Which norm needs "
            "what the first of them makes?",
            _flops(full_early=lambda *c: _forward(*c) - _output(*c) - _down(*c)),
        ),
        Mistake(
            "You leave out the weighted values. Whose gradient is made from their result?",
            _flops(full_early=lambda *c: _forward(*c) - _product_of_scores(*c)),
        ),
        Mistake(
            "You leave out the whole feed-forward block. Which of its matrices needs the result of "
            "another one for its gradient?",
            _flops(
                full_early=lambda m, b, s: (
                    _forward(m, b, s) - (3 if m.is_gated else 2) * _down(m, b, s)
                )
            ),
        ),
        Mistake(
            "Your selective recomputation has one product. Which two are in the core?",
            _flops(selective=_product_of_scores),
        ),
        Mistake(
            "Your selective recomputation has the projections in it. Which tensors does the core "
            "begin with, and are they kept?",
            _flops(
                selective=lambda m, b, s: (
                    2 * _product_of_scores(m, b, s)
                    + 4 * b * s * m.hidden_size * (m.num_heads + m.num_kv_heads) * m.head_dim
                )
            ),
        ),
        Mistake(
            "You count three times what runs again, as the paper does. How often does the core run "
            "more than without?",
            _flops(selective=lambda *c: 6 * _product_of_scores(*c)),
        ),
        Mistake(
            "Your core has the heads of keys and values. How many heads of queries meet them?",
            _flops(
                selective=lambda m, b, s: (
                    2 * _product_of_scores(m, b, s) * m.num_kv_heads // m.num_heads
                )
            ),
        ),
        Mistake(
            "Your core stops nowhere early. Which of its two products gives a result that no "
            "gradient of the core needs?",
            _flops(selective_early=lambda *c: 2 * _product_of_scores(*c)),
        ),
        Mistake(
            "Your core that stops early runs nothing again. From which product come the weights "
            "that the backward pass needs?",
            _flops(selective_early=lambda *c: 0),
        ),
    ),
)
