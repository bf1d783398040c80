"""Check of a backward pass in two halves: gradients by autograd, FLOPs of each half."""

import math
import random
from typing import Any

import torch

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.exercises.model_answers import mistakes_of, questions_of
from autograder.observing.checksums import checksum
from autograder.observing.u12 import halves

NAMES = ("widths", "rows", "seed")


def half_cases(seed: int) -> list[Case]:
    """One layer to four, of one width and of several; one row and more."""
    rng = random.Random(seed)
    cases: list[tuple[list[int], int]] = [([1, 1], 1), ([4, 4, 4], 3), ([3, 5, 2], 4), ([2, 6], 5)]
    for number in range(16):
        num_layers = 1 + number % 4
        width = rng.randint(2, 5)
        widths = [width if number % 2 else rng.randint(2, 6) for _ in range(num_layers + 1)]
        cases.append((widths, rng.randint(1, 5)))
    return [dict(zip(NAMES, (*each, 100 * seed + n), strict=True)) for n, each in enumerate(cases)]


def measured(**case: Any) -> dict[str, Any]:
    """Gradients that autograd finds; one product for each layer in either half."""
    weights, kept, upstream = halves.tensors_of(case)
    leaves = [each.requires_grad_() for each in (kept[0], *weights)]
    result = leaves[0]
    for weight in leaves[1:]:
        result = torch.tanh(result @ weight)
    gradient, *of_weights = torch.autograd.grad(result, leaves, upstream)
    products = sum(2 * case["rows"] * weight.numel() for weight in weights)
    return {
        "changed_arguments": 0,
        "wrong_rows": 0,
        "input_checksum": checksum(gradient, gradient),
        "weight_gradients": len(weights),
        "wrong_weights": 0,
        "weights_checksum": math.fsum(checksum(each, each) for each in of_weights),
        "flops_now": products,
        "flops_later": products,
        "gradient": gradient,
        "of_weights": of_weights,
    }


CHECK = Check(
    cases=half_cases,
    observe=halves.observe,
    judge=Behaviour(
        measured,
        *mistakes_of("u12-halves", observe=halves.observe),
        summarise=halves.summarise,
        labels=halves.LABELS,
        questions=questions_of("u12-halves"),
    ),
    fallback="course_utils.reference.two_halves.backward_in_halves",
    answers=("course_utils.reference.two_halves",),
)
