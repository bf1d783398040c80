"""What is observed of a gate: its numbers, and what it keeps for backward."""

from typing import Any

import torch
from torch import Tensor

from autograder.checking.fact import Case, Fact, Plain
from autograder.observers.comparing import num_different, num_rounded
from autograder.observers.kept import (
    facts_beside,
    kept_bytes,
    observe_kept,
    observe_numbers,
    rounded_results,
    saved,
    unseen,
)
from autograder.observers.random_numbers import normal_numbers
from autograder.observers.tools import errors_as_data

HALVES, FROZEN, SINGLE = "halves of one tensor", "u requires no gradient", "float32"
FROZEN_G, LEAVES, LARGE = "g requires no gradient", "leaves", "large numbers in float32"
LARGEST = 120.0  # exp of it is beyond float32


def inputs_of(case: Case) -> list[Tensor]:
    """g and u, which others have made unless they are leaves; the kind says what else they are."""
    kind, (*rows, width) = case["kind"], case["shape"]
    dtype = torch.float32 if kind in (SINGLE, LARGE) else torch.float64
    (both,) = normal_numbers(sum(case["shape"]), (*rows, 2 * width), dtype=dtype)
    if kind == LARGE:
        row = both.view(-1, 2 * width)
        row[0, 0], row[-1, width - 1] = LARGEST, -LARGEST
    both = both.requires_grad_() * 1
    g, u = both[..., :width], both[..., width:]
    if kind == HALVES:
        return [g, u]
    g, u = g.clone(), u.clone()
    if kind == LEAVES:
        return [each.detach().requires_grad_() for each in (g, u)]
    return [g.detach() if kind == FROZEN_G else g, u.detach() if kind == FROZEN else u]


@errors_as_data
def observe(answer: Any, case: Case) -> dict[str, Any]:
    """Result and gradients of the student's gate, and what it keeps of other inputs."""
    return observe_numbers(answer, inputs_of(case)) | observe_kept(answer, inputs_of(case))


def facts(case: Case, observed: Plain, right: Plain) -> list[Fact]:
    """Results and gradients beside the right ones, and bytes."""
    results = [observed["result"]], [right["result"]]
    rounded, kept = num_rounded(*results), kept_bytes(observed)
    # Where g is frozen, backward reads g alone; to keep u as well is no fault.
    is_free = case["kind"] == FROZEN_G and not kept["copied_bytes"]
    return [
        Fact(
            "wrong_results",
            num_different(*results) - rounded,
            "wrong results",
            "The result is wrong. What should come out for g = 0, and what for a large g?",
        ),
        rounded_results(rounded),
        *facts_beside(
            observed,
            right,
            inputs_of(case),
            "The result is right, gradients are not. Derive both by hand for one number: which "
            "factor do you find?",
        ),
        saved(
            right["saved_bytes"] if is_free else kept["saved_bytes"],
            "The numbers are right, the bytes are not. Which tensors does backward read, and which "
            "of these can it make again?",
        ),
        Fact(
            "copied_bytes",
            kept["copied_bytes"],
            "the bytes that autograd keeps besides the inputs",
            "Which of the tensors that are saved for backward is neither g nor u itself, and which "
            "operation made it?",
        ),
        unseen(kept["unseen_bytes"]),
    ]
