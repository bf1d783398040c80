"""What is observed of a gate: its numbers, and what it keeps for backward."""

from typing import Any

import torch
from torch import Tensor

from autograder.checking.exercise_check import Case
from autograder.checking.plain_data import Plain
from autograder.observing.comparing import num_different, num_rounded
from autograder.observing.observation import errors_as_data
from autograder.observing.u03.kept import (
    kept_bytes,
    numbers_beside,
    observe_kept,
    observe_numbers,
    random_tensors,
)

HALVES, FROZEN, SINGLE = "halves of one tensor", "u requires no gradient", "float32"
FROZEN_G, LEAVES, LARGE = "g requires no gradient", "leaves", "large numbers in float32"
LARGEST = 120.0  # exp of it is beyond float32


def inputs_of(case: Case) -> list[Tensor]:
    """g and u, which others have made unless they are leaves; the kind says what else they are."""
    kind, (*rows, width) = case["kind"], case["shape"]
    dtype = torch.float32 if kind in (SINGLE, LARGE) else torch.float64
    (both,) = random_tensors(sum(case["shape"]), (*rows, 2 * width), dtype=dtype)
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


def summarise(case: Case, observed: Plain, right: Plain) -> dict[str, int]:
    """Results and gradients beside the right ones, and bytes."""
    results = [observed["result"]], [right["result"]]
    rounded = num_rounded(*results)
    numbers = numbers_beside(observed, right, inputs_of(case)) | kept_bytes(observed)
    if case["kind"] == FROZEN_G and not numbers["copied_bytes"]:
        numbers["saved_bytes"] = right["saved_bytes"]  # u need not be kept there
    return {
        "wrong_results": num_different(*results) - rounded,
        "rounded_results": rounded,
    } | numbers
