"""A backward pass in two halves: the gradients of both, and the FLOPs of each."""

import itertools
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from autograder.checking.exercise_check import Case
from autograder.checking.plain_data import Plain, describe
from autograder.checking.result_form import WrongForm
from autograder.observing.checksums import checksum, wrong_rows
from autograder.observing.observation import (
    errors_as_data,
    require_pair,
    require_tensor,
    undisturbed,
)
from autograder.observing.u03.kept import random_tensors
from course_utils.instruments import count_flops

LABELS = {
    "changed_arguments": "arguments that are other numbers afterwards",
    "wrong_rows": "wrong rows in the gradient of the input",
    "input_checksum": "the sum of that gradient, each number with a weight of its own",
    "weight_gradients": "gradients of weights",
    "wrong_weights": "wrong gradients of weights",
    "weights_checksum": "the sum of those gradients, each number with a weight of its own",
    "flops_now": "FLOPs of the first half",
    "flops_later": "FLOPs of the second half",
}


def tensors_of(case: Case) -> tuple[list[Tensor], list[Tensor], Tensor]:
    """Weights, what forward kept, and the upstream gradient."""
    widths, rows = case["widths"], case["rows"]
    shapes = [*itertools.pairwise(widths)]
    *weights, x, upstream = random_tensors(
        case["seed"], *shapes, (rows, widths[0]), (rows, widths[-1])
    )
    kept = [x]
    for weight in weights:
        kept.append(torch.tanh(kept[-1] @ weight))
    return weights, kept, upstream


@errors_as_data
def observe(answer: Any, case: Case) -> dict[str, Any]:
    """What both halves return, and how much each multiplies.

    Raises:
        WrongForm: If it is not a tensor and a function.
    """
    weights, kept, upstream = tensors_of(case)
    given = [*weights, *kept, upstream]
    before = [each.clone() for each in given]
    results: list[Any] = []
    with undisturbed():
        flops_now = _flops_of(lambda: results.append(answer(weights, kept, upstream)))
        (result,) = results
        first, later = require_pair(result, "a tensor and a function")
        if not callable(later):
            raise WrongForm("a tensor and a function", f"{describe(first)} and {describe(later)}")
        gradient = require_tensor(first)
        gradient = gradient.detach().clone()
        flops_later = _flops_of(lambda: results.append(later()))
    if not isinstance(results[1], list | tuple):
        raise WrongForm("a list of tensors later", describe(results[1]))
    return {
        "gradient": gradient,
        "of_weights": [require_tensor(each).detach() for each in results[1]],
        "before": before,
        "after": [*given],
        "flops_now": flops_now,
        "flops_later": flops_later,
    }


def _flops_of(call: Callable[[], object]) -> int:
    """FLOPs of a call that returns anything."""

    def and_a_tensor() -> Tensor:
        call()
        return torch.zeros(())

    return sum(count_flops(and_a_tensor))


def summarise(case: Case, observed: Plain, right: Plain) -> dict[str, float]:
    """Both halves beside the right ones.

    A product with a side of one may run as a multiplication, which is not counted.
    """
    is_counted = min(case["rows"], *case["widths"]) > 1
    ours, theirs = observed["of_weights"], right["of_weights"]
    pairs = list(zip(ours, theirs, strict=False))
    changed = zip(observed["before"], observed["after"], strict=True)
    return {
        "changed_arguments": sum(not torch.equal(*pair) for pair in changed),
        "wrong_rows": wrong_rows(observed["gradient"], right["gradient"]),
        "input_checksum": checksum(observed["gradient"], right["gradient"]),
        "weight_gradients": len(ours),
        "wrong_weights": sum(bool(wrong_rows(*pair)) for pair in pairs),
        "weights_checksum": math.fsum(checksum(*pair) for pair in pairs),
        **{
            name: observed[name] if is_counted else right[name]
            for name in ("flops_now", "flops_later")
        },
    }
