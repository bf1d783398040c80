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
from autograder.exercises.model_answers import Edit, edited
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


# Places of the model answer.
FULL, EARLY = '"full": before_last + one_matrix', '"full_early": before_last'
CORE, CORE_EARLY = '"selective": scores + values', '"selective_early": scores'
HEADS, GATES = "(2 * model.num_heads + 2 * kv)", "(2 if model.is_gated else 1) * "
PROJECTIONS, IN_LAYER = "2 * tokens * h * d * ", "+ scores + values +"
SCORES, MATRIX = "2 * tokens * seq_len * model.num_heads * d", "2 * tokens * h * model.ffn_size"
OUTPUT = "2 * tokens * h * model.num_heads * d"

WIDTH = (
    "Somewhere you take hidden_size for the width of all heads together. How wide are they where "
    "head_dim is not hidden_size / num_heads?"
)
WIDE_SCORES = {SCORES: "2 * tokens * seq_len * h"}
WIDE_PROJECTIONS = {
    PROJECTIONS: "2 * tokens * h * ",
    HEADS: "(2 * h + 2 * kv * d)",
}
UNDER_A_MASK = (
    "You count only the scores that a causal mask leaves. Which does the exercise count: those, "
    "or the full square?"
)
UNGATED = (
    "Where the block is not gated you run one matrix too many again when stopping early. How many "
    "matrices has such a block, and which of them is left out?"
)
HALF_IN_LAYER = (
    "Your full recomputation has half the FLOPs of the scores: one product of two, or half of "
    "both. How many are there, and does the exercise count the full square?"
)


def _in_one(hint: str, place: str, *values: str) -> list[Edit]:
    """A mistake in one of the four numbers, in some spellings."""
    key = place.split(":", maxsplit=1)[0]
    return [Edit(hint, {place: f"{key}: {value}"}, points=2.25) for value in values]


EDITS = (
    *_in_one(
        "Your full recomputation takes three passes. Which of the three is it that runs again?",
        FULL,
        "3 * (before_last + one_matrix)",
    ),
    *_in_one(
        "Your full recomputation is a whole backward pass. What does it compute again: gradients, "
        "or what they are made from?",
        FULL,
        "2 * (before_last + one_matrix)",
    ),
    Edit(
        "Your full recomputation has no products of the scores. Is the attention core part of "
        "the layer?",
        {IN_LAYER: "+"},
        points=1.5,
    ),
    Edit(HALF_IN_LAYER, {IN_LAYER: "+ scores +"}, points=1.5),
    Edit(
        "Your keys and values are made for every query head. How many heads do they have?",
        {HEADS: "4 * model.num_heads"},
        points=1.5,
    ),
    Edit(
        "Your keys and values share one projection. How many weight matrices make queries, keys "
        "and values?",
        {HEADS: "(2 * model.num_heads + kv)"},
        points=1.5,
    ),
    Edit(
        "Your feed-forward block has two matrices, also where it is gated. How many has it then?",
        {GATES: ""},
        points=1.5,
    ),
    Edit(UNGATED, {GATES: "2 * "}, points=1.5),
    *_in_one(UNGATED, EARLY, "before_last + (0 if model.is_gated else one_matrix)"),
    Edit(
        "Your gated blocks have two matrices, and the others three. Which of them has one more?",
        {GATES: "(1 if model.is_gated else 2) * "},
        points=1.5,
    ),
    Edit(
        "Your full recomputation has the output head in it. Is the head in a layer?",
        {IN_LAYER: "+ scores + values + 2 * tokens * h * model.vocab_size +"},
        points=1.5,
    ),
    *_in_one(
        "Your full recomputation leaves out the down projection. Which of the four keys asks for "
        "what PyTorch leaves out, and which for all that a checkpoint runs again?",
        FULL,
        "before_last",
    ),
    *_in_one(
        "Your full recomputation stops nowhere early, and neither does the other. Which products "
        "give a result that no gradient of the layer needs?",
        EARLY,
        "before_last + one_matrix",
    ),
    *_in_one(
        "You leave out the output projection. Is it the last product of the layer, and does "
        "nothing after it need its result?",
        EARLY,
        f"before_last + one_matrix - {OUTPUT}",
    ),
    *_in_one(
        "You leave out the output projection as well as the down projection. Which norm needs what "
        "the first of them makes?",
        EARLY,
        f"before_last - {OUTPUT}",
    ),
    *_in_one(
        "You leave out the weighted values. Whose gradient is made from their result?",
        EARLY,
        "before_last + one_matrix - values",
    ),
    *_in_one(
        "You leave out the whole feed-forward block. Which of its matrices needs the result of "
        "another one for its gradient?",
        EARLY,
        "projections + scores + values",
    ),
    *_in_one(
        "Your selective recomputation has the FLOPs of one product. Which two are in the core, and "
        "does the exercise count the full square of both?",
        CORE,
        "scores",
    ),
    *_in_one(
        "Your selective recomputation includes projections. Which tensors does the core begin "
        "with, and are they kept?",
        CORE,
        "scores + values + projections",
        f"scores + values + projections - {OUTPUT}",
    ),
    *_in_one(
        "You count three times what runs again, as the paper does. How many more times does the "
        "core run than without recomputation?",
        CORE,
        "3 * (scores + values)",
    ),
    Edit(
        "Your core has the heads of keys and values. How many heads of queries meet them?",
        {SCORES: "2 * tokens * seq_len * kv * d"},
    ),
    *_in_one(
        "Your core stops nowhere early. Which of its two products gives a result that no gradient "
        "of the core needs?",
        CORE_EARLY,
        "scores + values",
    ),
    *_in_one(
        "Your core that stops early runs nothing again. From which product come the weights that "
        "the backward pass needs?",
        CORE_EARLY,
        "0",
    ),
    Edit(UNDER_A_MASK, {SCORES: "tokens * seq_len * model.num_heads * d"}),
    Edit(UNDER_A_MASK, {SCORES: "tokens * (seq_len + 1) * model.num_heads * d"}),
    Edit(
        "Tokens of one sequence meet those of all others in your scores. How many tokens does one "
        "token meet?",
        {SCORES: "2 * tokens * tokens * model.num_heads * d"},
    ),
    Edit(
        "You count all layers of the model. How many does the exercise ask for?",
        {"tokens = num_sequences": "tokens = model.num_layers * num_sequences"},
    ),
    Edit(
        "Exactly half: you count the multiplications. What happens to the products after that?",
        {each: each.removeprefix("2 * ") for each in (PROJECTIONS, SCORES, MATRIX)},
    ),
    Edit(WIDTH, WIDE_SCORES),
    Edit(WIDTH, WIDE_PROJECTIONS, points=1.5),
    Edit(WIDTH, {**WIDE_SCORES, **WIDE_PROJECTIONS}),
    Edit(
        WIDTH,
        {
            **WIDE_SCORES,
            PROJECTIONS: "2 * tokens * h * ",
            HEADS: "(2 * h + 2 * (h * kv // model.num_heads))",
        },
    ),
    Edit(WIDTH, {"model.head_dim": "model.hidden_size // model.num_heads"}),
)

CHECK = Check(
    cases=flops_cases,
    judge=EqualTo(measured_recomputed_flops, *edited("u05-recomputed-flops", EDITS)),
    fallback="course_utils.formulas.recomputation.recomputed_flops_of_layer",
    answers=("course_utils.instruments.flop_count", "torch.utils.flop_counter"),
)
