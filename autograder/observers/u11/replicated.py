"""Gradients of a layer's parameters on ranks, summed or not."""

from typing import Any

import torch
from torch import Tensor

from autograder.checking.fact import Case, Fact, Plain
from autograder.observers.comparing import is_same
from autograder.observers.on_ranks import (
    bytes_in_calls,
    calls_made,
    cluster_of,
    record_on_ranks,
)
from autograder.observers.random_numbers import normal_numbers
from autograder.observers.replay import forged, replay
from autograder.observers.tools import errors_as_data, length_of, undisturbed
from course_utils.distributed import Comm

WHOLE = ("norm1", "norm2", "o_bias", "down_bias")
PARTS = ("q", "k", "v", "o", "up", "down", "up_bias")


def parameters_of(case: Case, rank: int) -> dict[str, Tensor]:
    """Parameters with their gradients on a rank, in a shuffled order."""
    names = [*WHOLE[: 4 if case["has_biases"] else 2], *PARTS[: 7 if case["has_biases"] else 6]]
    h = case["hidden_size"]
    values = normal_numbers(
        30 + rank, *((h,) if "norm" in n or "bias" in n else (h, 2) for n in names)
    )
    parameters = {}
    for name, value in zip(names, values, strict=True):
        parameters[name] = torch.zeros_like(value).requires_grad_()
        if name != case["without_gradient"]:
            parameters[name].grad = value
    return dict(sorted(parameters.items()))


@errors_as_data
def observe(answer: Any, case: Case) -> dict[str, Any]:
    """All gradients afterwards, and all calls."""

    def on_rank(comm: Comm) -> dict[str, Any]:
        parameters = parameters_of(case, comm.rank)
        answer(comm, dict(parameters))
        return {name: each.grad for name, each in parameters.items()}

    with undisturbed():
        return record_on_ranks(case["num_ranks"], on_rank)._asdict()


def facts(case: Case, observed: Plain, right: Plain) -> list[Fact]:
    """Gradients beside the right ones; calls and bytes on the judge's cluster."""
    run, forged_calls = replay(observed["logs"], cluster_of(case["num_ranks"]))
    wrong = [
        name
        for ours, theirs in zip(observed["ranks"], right["ranks"], strict=True)
        for name in theirs
        if (theirs[name] is None) != (ours[name] is None)
        or (theirs[name] is not None and not is_same(ours[name], theirs[name]))
    ]
    of_norm1 = (observed if "norm1" in wrong else right)["ranks"][0]["norm1"]
    return [
        forged(forged_calls),
        calls_made(
            len(run.communications()),
            "Which weights are whole on every rank and see a rank's own tokens only? How many of "
            "them have a gradient?",
        ),
        bytes_in_calls(run),
        Fact(
            "wrong_whole",
            sum(name in WHOLE for name in wrong),
            "gradients of whole weights that are wrong, on all ranks",
            "After backward, of which tokens does a rank's gradient of norm1 know?",
        ),
        Fact(
            "wrong_parts",
            sum(name in PARTS for name in wrong),
            "gradients of cut weights that are wrong, on all ranks",
            "Which rank needs to know the gradient of a weight that it does not hold?",
        ),
        Fact(
            "norm1_length",
            length_of([of_norm1]),
            "the length of rank 0's gradient of norm1",
            "What do the other ranks know of the gradient of norm1, and what of it is in rank 0's "
            "gradient after your function?",
        ),
    ]
