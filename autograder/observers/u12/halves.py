"""A backward pass in two halves: the gradients of both, and the FLOPs of each."""

import itertools
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from autograder.checking.fact import Case, Fact, Plain
from autograder.checking.plain_data import describe
from autograder.checking.result_form import WrongForm
from autograder.observers.checksums import checksum, wrong_rows
from autograder.observers.random_numbers import normal_numbers
from autograder.observers.tools import (
    errors_as_data,
    require_pair,
    require_tensor,
    undisturbed,
)
from course_utils.instruments import count_flops

OF_INPUT = (
    "Which layer's output stands in your derivative of tanh, and is each factor of the chain rule "
    "there?"
)
OF_WEIGHTS = (
    "The first half is right. Which two tensors give the gradient of one weight, and from which "
    "layer is each of them?"
)


def tensors_of(case: Case) -> tuple[list[Tensor], list[Tensor], Tensor]:
    """Weights, what forward kept, and the upstream gradient."""
    widths, rows = case["widths"], case["rows"]
    shapes = [*itertools.pairwise(widths)]
    *weights, x, upstream = normal_numbers(
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


def facts(case: Case, observed: Plain, right: Plain) -> list[Fact]:
    """Both halves beside the right ones.

    A product with a side of one may run as a multiplication, which is not counted.
    """
    counted = observed if min(case["rows"], *case["widths"]) > 1 else right
    ours, theirs = observed["of_weights"], right["of_weights"]
    pairs = list(zip(ours, theirs, strict=False))
    changed = zip(observed["before"], observed["after"], strict=True)
    return [
        Fact(
            "changed_arguments",
            sum(not torch.equal(*pair) for pair in changed),
            "arguments that have changed",
            "Which of your operations writes into a tensor that it was given?",
        ),
        Fact(
            "wrong_rows",
            wrong_rows(observed["gradient"], right["gradient"]),
            "wrong rows in the gradient of the input",
            OF_INPUT,
        ),
        Fact(
            "input_checksum",
            checksum(observed["gradient"], right["gradient"]),
            "the weighted sum of the gradient of the input",
            OF_INPUT,
        ),
        Fact(
            "weight_gradients",
            len(ours),
            "gradients of weights",
            "How many weights are there?",
        ),
        Fact(
            "wrong_weights",
            sum(bool(wrong_rows(*pair)) for pair in pairs),
            "wrong gradients of weights",
            OF_WEIGHTS,
        ),
        Fact(
            "weights_checksum",
            math.fsum(checksum(*pair) for pair in pairs),
            "the sum of those gradients, each number with a weight of its own",
            OF_WEIGHTS,
        ),
        Fact(
            "flops_now",
            counted["flops_now"],
            "FLOPs of the first half",
            "The first half multiplies more than once for each layer, or not at all. Which product "
            "does nobody wait for?",
        ),
        Fact(
            "flops_later",
            counted["flops_later"],
            "FLOPs of the second half",
            "The second half multiplies more than once for each layer. Which product has the first "
            "half already made?",
        ),
    ]
