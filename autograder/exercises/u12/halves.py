"""Check of a backward pass in two halves: gradients by autograd, FLOPs of each half."""

import math
import random
from typing import Any

import torch

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.exercises.model_answers import Edit, edited
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


# Places of the model answer.
LOOP, Z = "for layer in reversed(range(len(weights))):", "gradient * (1 - kept[layer + 1] ** 2)"
KEEP, STEP = "of_products.insert(0, of_product)", "gradient = of_product @ weights[layer].T"
LATER = "[x.T @ z for x, z in zip(kept, of_products, strict=False)]"
RETURN = "    return gradient, weight_gradients"

EDITS = (
    Edit(
        "All products are in the first half. Who waits for it, and for which of its results?",
        {RETURN: "    early = weight_gradients()\n    return gradient, lambda: early"},
    ),
    Edit(
        "The second half computes the gradient of the input once more. What does the first half "
        "know that the second one could use?",
        {
            LATER: "[kept[layer].T @ z for layer, z in again()]",
            RETURN: """
    def again():
        gradient = upstream
        pairs = []
        for layer in reversed(range(len(weights))):
            z = gradient * (1 - kept[layer + 1] ** 2)
            pairs.insert(0, (layer, z))
            gradient = z @ weights[layer].T
        return pairs

"""
            + RETURN,
        },
    ),
    Edit(
        "The slope of tanh is taken at the wrong place. Is 1 - x² a function of a layer's input or "
        "of its output?",
        {Z: "gradient * (1 - torch.tanh(kept[layer + 1]) ** 2)"},
    ),
    Edit(
        "The slope of tanh is taken at the wrong place. Is 1 - x² a function of a layer's input or "
        "of its output?",
        {Z: "gradient * (1 - kept[layer] ** 2)"},
    ),
    Edit(
        "The slope of tanh is missing. By what is a gradient multiplied on its way through tanh?",
        {Z: "gradient * 1"},
    ),
    Edit(
        "The gradient of the input is right, those of the weights are not: the slope of tanh is "
        "missing in them. Which gradient do weights need, that before tanh or that behind it?",
        {f"{Z}\n        {KEEP}": f"gradient\n        {KEEP}\n        of_product = {Z}"},
    ),
    Edit(
        "The gradients of the weights come from the last layer to the first. In which order does "
        "the exercise want them?",
        {LATER: f"{LATER}[::-1]"},
    ),
    Edit(
        "The gradients of the weights have changed places in their order. In which order does your "
        "loop meet the layers?",
        {KEEP: "of_products.append(of_product)", LATER: LATER.replace("zip(kept", "zip(kept[:-1]")},
    ),
    Edit(
        "The gradients of the weights are transposed. Which shape has a weight here, (in, out) or "
        "(out, in)?",
        {LATER: LATER.replace("x.T @ z", "z.T @ x")},
    ),
    Edit(
        "All gradients of the weights are made of the first layer's gradient. When does a function "
        "read the variables of the loop around it?",
        {LATER: "[x.T @ of_product for x in kept[:-1]]"},
    ),
    Edit(
        "The gradient of the weights takes the outputs of their layers. What was multiplied by a "
        "weight in forward?",
        {LATER: LATER.replace("zip(kept", "zip(kept[1:]")},
    ),
    Edit(
        "The first half ends a layer early. Whose input is the gradient for that the stage before "
        "waits for?",
        {RETURN: RETURN.replace("gradient,", "of_product,")},
    ),
    Edit(
        "Gradients are right, and an argument is other numbers afterwards. Which of your "
        "operations writes into the tensor that it is called on?",
        {Z: "gradient.mul_(1 - kept[layer + 1] ** 2)"},
        shows=("changed_arguments",),
    ),
)

CHAIN_RULE = (
    "Which layer's output stands in your derivative of tanh, and which factor of the chain rule is "
    "missing?"
)

CHECK = Check(
    cases=half_cases,
    observe=halves.observe,
    judge=Behaviour(
        measured,
        *edited("u12-halves", EDITS, observe=halves.observe),
        summarise=halves.summarise,
        labels=halves.LABELS,
        questions={
            "changed_arguments": "Which of your operations writes into a tensor that it was given?",
            "wrong_rows": CHAIN_RULE,
            "input_checksum": CHAIN_RULE,
            "weight_gradients": "How many weights are there?",
            "wrong_weights": "The first half is right. Which two tensors give the gradient of one "
            "weight, and from which layer is each of them?",
            "weights_checksum": "The first half is right. Which two tensors give the gradient of "
            "one weight, and from which layer is each of them?",
            "flops_now": "The first half multiplies more than once for each layer, or not at all. "
            "Which product does nobody wait for?",
            "flops_later": "The second half multiplies more than once for each layer. Which "
            "product has the first half already made?",
        },
    ),
    fallback="course_utils.reference.two_halves.backward_in_halves",
    answers=("course_utils.reference.two_halves",),
)
