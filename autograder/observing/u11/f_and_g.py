"""f and g, each by itself and around the work of a block."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from autograder.checking.exercise_check import Case
from autograder.checking.plain_data import Plain
from autograder.observing.comparing import num_changed, num_different
from autograder.observing.observation import (
    errors_as_data,
    length_of,
    require_pair,
    require_tensor,
    undisturbed,
)
from autograder.observing.replay import replay
from autograder.observing.u03.kept import random_tensors
from autograder.observing.u09.on_ranks import cluster_of, record_on_ranks
from autograder.observing.u11.named_errors import error_as_number, numbers_of_error
from autograder.observing.u11.passes import LABELS as PASS_LABELS
from autograder.observing.u11.passes import end_forward, traffic
from course_utils.distributed import Comm

Operation = Callable[[Tensor], Tensor]

SCENARIOS = ("f", "g", "block")
PLAIN, TURNED, SPREAD, TWICE = "plain", "transposed", "expanded gradient", "input used twice"
STRIDED = "strided_calls"
LABELS = PASS_LABELS | {
    STRIDED: "A call got a tensor that is not contiguous.",
    "wrong_results": "ranks whose result is wrong",
    "wrong_gradients": "ranks whose gradient of x is wrong",
    "result_length": "the length of rank 0's result",
    "gradient_length": "the length of rank 0's gradient",
    "changed": "tensors of somebody else that hold other numbers afterwards",
}


def tensors_of(case: Case, rank: int) -> tuple[Tensor, Tensor, Tensor]:
    """What goes in, a rank's own factor, and the gradient that comes from above.

    Copies go into f and into a block, on every rank; into g goes a part of a sum.
    """
    is_same = case["scenario"] != "g"
    (x,) = random_tensors(7 if is_same else 8 + rank, case["shape"])
    (factor,) = random_tensors(100 + rank, case["shape"])
    (incoming,) = random_tensors(200 + (rank if case["scenario"] == "f" else 0), case["shape"])
    if case["kind"] == TURNED:
        x, factor, incoming = (each.mT.contiguous().mT for each in (x, factor, incoming))
    if case["kind"] == SPREAD:
        incoming = incoming[:1, :1].expand(case["shape"])
    return x, factor, incoming


def used(case: Case, f: Operation, g: Operation, x: Tensor, factor: Tensor) -> Tensor:
    """What is made of an input in each scenario."""
    if case["scenario"] == "block":
        return x + g(torch.sin(f(x) * factor))
    result = (f if case["scenario"] == "f" else g)(x)
    return result + x if case["kind"] == TWICE else result


def _on_rank(comm: Comm, answer: Any, case: Case) -> dict[str, Any]:
    x, factor, incoming = tensors_of(case, comm.rank)
    leaf = x.detach().clone().requires_grad_()
    inner = leaf.view_as(leaf)
    f, g = require_pair(answer(comm), "a pair of functions")
    result = require_tensor(used(case, f, g, inner, factor))
    end_forward(comm)
    gradient = None
    if result.requires_grad:
        (gradient,) = torch.autograd.grad(result, leaf, incoming, allow_unused=True)
    return {
        "result": result.detach(),
        "gradient": gradient,
        "x": leaf.detach(),
        "incoming": incoming,
    }


@errors_as_data
@error_as_number(STRIDED, ValueError, "is not contiguous")
def observe(answer: Any, case: Case) -> dict[str, Any]:
    """Result and gradient of each rank, what others hold afterwards, and all calls."""
    with undisturbed():
        recorded = record_on_ranks(case["num_ranks"], _on_rank, answer, case)
    return {"ranks": recorded.results, "logs": recorded.logs}


def summarise(case: Case, observed: Plain, right: Plain) -> dict[str, float]:
    """Calls of each pass on the judge's cluster; results and gradients beside the right ones."""
    if error := numbers_of_error(STRIDED, observed, right):
        return error
    ranks = observed["ranks"]
    run, forged_calls = replay(observed["logs"], cluster_of(case["num_ranks"]))
    before = [tensors_of(case, rank) for rank in range(case["num_ranks"])]
    wrong_results = num_different((each["result"] for each in ranks), right["results"])
    wrong_gradients = num_different((each["gradient"] for each in ranks), right["gradients"])
    first = ranks[0] if wrong_results else {"result": right["results"][0]}
    steepest = ranks[0] if wrong_gradients else {"gradient": right["gradients"][0]}
    return {
        "forged_calls": forged_calls,
        STRIDED: 0,
        **traffic(run, ["all_reduce"]),
        "wrong_results": wrong_results,
        "result_length": length_of([first["result"]]),
        "wrong_gradients": wrong_gradients,
        "gradient_length": length_of([steepest["gradient"]]),
        "changed": num_changed((each["x"] for each in ranks), (x for x, _, _ in before))
        + num_changed((each["incoming"] for each in ranks), (i for _, _, i in before)),
    }
