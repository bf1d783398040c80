"""Check of a backward pass that makes attention weights again: gradients, bytes, FLOPs."""

import random
from typing import Any

import torch
from torch import Tensor

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.exercises.model_answers import mistakes_of, questions_of
from autograder.observing.checksums import checksum
from autograder.observing.u03.kept import gradients_of
from autograder.observing.u06 import backward
from autograder.observing.u06.backward import APART, FROZEN, PARTS, QKV, inputs_of

NAMES = ("kind", "heads", "seq_len", "head_dim", "block")


def backward_cases(seed: int) -> list[Case]:
    """Whole and ragged tiles, one head and several, parts of one tensor, frozen values."""
    rng = random.Random(seed)
    cases: list[tuple[Any, ...]] = [(APART, [1], 4, 2, 2)]
    kinds = (APART, PARTS, APART, PARTS, FROZEN)
    for number in range(20):
        block = rng.randint(5, 8)
        num_tiles = 3 if number < 5 else 2
        missing = 0 if number % 2 else rng.randint(1, block - 1)  # from the last tile
        seq_len = num_tiles * block - missing
        heads = ([1], [2], [1, 2])[number % 3]
        cases.append((kinds[number % 5], heads, seq_len, rng.randint(2, 3), block))
    cases += [(APART, [2], rng.randint(4, 8), 3, 9), (APART, [1], rng.randint(3, 8), 2, 1)]
    return [dict(zip(NAMES, case, strict=True)) for case in cases]


def exact(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Causal attention with every score in memory."""
    hidden = torch.ones(q.shape[-2], q.shape[-2], dtype=torch.bool).triu(1)
    scores = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(hidden, -torch.inf)
    result: Tensor = scores.softmax(-1) @ v
    return result


def measured(**case: Any) -> dict[str, Any]:
    """Gradients that autograd finds with all scores; bytes and FLOPs from the shapes.

    Two products for each visited tile in forward, five in backward.
    """
    inputs = inputs_of(case)
    result = exact(*inputs)
    gradients = gradients_of(result, inputs)
    block, seq_len = case["block"], case["seq_len"]
    sides = [min(block, seq_len - start) for start in range(0, seq_len, block)]
    pairs = sum(height * width for n, height in enumerate(sides) for width in sides[: n + 1])
    num_heads = inputs[0].shape[:-2].numel()
    product = 2 * num_heads * pairs * case["head_dim"]
    kept = inputs[0].numel() * 8 + num_heads * seq_len * 8
    given = {each.untyped_storage()._cdata: each.untyped_storage().nbytes() for each in inputs}
    named = {name: each for name, each in zip(QKV, gradients, strict=False) if each is not None}
    return {
        "wrong_rows": 0,
        "changed_inputs": 0,
        **{f"wrong_d{name}": 0 for name in named},
        **{f"d{name}_checksum": checksum(each, each) for name, each in named.items()},
        "calls_of_forward": 1,
        "saved_bytes": sum(given.values()) + kept,
        "copied_bytes": kept,
        "unseen_bytes": 0,
        "forward_flops": 2 * product,
        "backward_flops": 5 * product,
        "square_tensors": 0,
        "result": result.detach(),
        "gradients": gradients,
    }


CHECK = Check(
    cases=backward_cases,
    observe=backward.observe,
    judge=Behaviour(
        measured,
        *mistakes_of("u06-backward", observe=backward.observe),
        summarise=backward.summarise,
        labels=backward.LABELS,
        questions=questions_of("u06-backward"),
    ),
    fallback="course_utils.reference.flash.flash_attention",
    answers=("course_utils.reference.flash",),
)
