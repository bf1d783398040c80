"""Attention of one token over latents: its result and its FLOPs."""

from typing import Any

import torch
from torch import Tensor

from autograder.checking.fact import Case, Fact, Plain
from autograder.observers.checksums import checksum, wrong_rows
from autograder.observers.random_numbers import normal_numbers
from autograder.observers.tools import errors_as_data, keep, undisturbed
from autograder.observers.u13.shapes import of_shape
from course_utils.instruments import count_bytes

SIZES = ("num_sequences", "num_heads", "context", "rank", "nope", "rope", "width")


def inputs_of(case: Case) -> list[Tensor]:
    """Two parts of a query, latents, rotary keys, and two matrices, in float64."""
    b, a, t, r, nope, rope, width = (case[name] for name in SIZES)
    shapes = [(b, a, nope), (b, a, rope), (b, t, r), (b, t, rope), (r, a, nope), (r, a, width)]
    return normal_numbers(1000 * t + 10 * r + a, *shapes)


@errors_as_data
def observe(answer: Any, case: Case) -> dict[str, Any]:
    """One call, while its operations are counted."""
    inputs, results = inputs_of(case), list[Tensor]()
    with undisturbed(), torch.no_grad():
        moved = count_bytes(lambda: keep(results, answer(*inputs)))
    shape = case["num_sequences"], case["num_heads"], case["width"]
    return {"out": of_shape(results[0], shape).detach().double(), "flops": moved.flops}


def facts(case: Case, observed: Plain, right: Plain) -> list[Fact]:
    """Rows that are wrong; FLOPs where the scenario is about them."""
    of_result = [
        Fact(
            "wrong_rows",
            wrong_rows(observed["out"], right["out"]),
            "The result is wrong.",
            "Which two parts make up a score, by what is it divided, and what is summed with the "
            "weights?",
        ),
        Fact(
            "checksum",
            checksum(observed["out"], right["out"]),
            "the sum of all results, each with a weight of its own",
            "Make the whole keys and values of one head and attend with them. At which step do "
            "your scores, weights or sums begin to differ?",
        ),
    ]
    flops = Fact(
        "flops",
        observed["flops"],
        "FLOPs",
        "The result is right, but the number of FLOPs is not. Which of your products runs over "
        "heads, cached tokens, r and a width of a head at once?",
    )
    return [*of_result, flops] if case["scenario"] == "flops" else of_result
