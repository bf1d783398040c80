"""f and g, each by itself and around the work of a block."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from autograder.checking.fact import Case, Fact, Plain
from autograder.observers.comparing import num_changed, num_different
from autograder.observers.on_ranks import cluster_of, record_on_ranks
from autograder.observers.random_numbers import normal_numbers
from autograder.observers.replay import forged, replay
from autograder.observers.tools import (
    errors_as_data,
    length_of,
    require_pair,
    require_tensor,
    undisturbed,
)
from autograder.observers.u11.named_errors import error_as_number, silent_ranks, with_error
from autograder.observers.u11.passes import end_forward, traffic
from autograder.observers.u11.results import wrong_results
from course_utils.distributed import Comm

Operation = Callable[[Tensor], Tensor]

SCENARIOS = ("f", "g", "block")
PLAIN, TURNED, SPREAD, TWICE = "plain", "transposed", "expanded gradient", "input used twice"
STRIDED = "strided_calls"


def tensors_of(case: Case, rank: int) -> tuple[Tensor, Tensor, Tensor]:
    """What goes in, a rank's own factor, and the gradient that comes from above.

    Copies go into f and into a block, on every rank; into g goes a part of a sum.
    """
    is_same = case["scenario"] != "g"
    (x,) = normal_numbers(7 if is_same else 8 + rank, case["shape"])
    (factor,) = normal_numbers(100 + rank, case["shape"])
    (incoming,) = normal_numbers(200 + (rank if case["scenario"] == "f" else 0), case["shape"])
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
        return record_on_ranks(case["num_ranks"], _on_rank, answer, case)._asdict()


def facts(case: Case, observed: Plain, right: Plain) -> list[Fact]:
    """Calls of each pass on the judge's cluster; results and gradients beside the right ones."""
    strided = Fact(
        STRIDED,
        observed.get(STRIDED, 0),
        "A call got a tensor that is not contiguous.",
        "A call needs a contiguous tensor, and a transposed one is not. Which tensor goes into "
        "the call?",
    )
    if strided.value:
        nothing = dict.fromkeys(("result", "gradient", "x", "incoming"))
        observed = silent_ranks(case["num_ranks"], nothing)
    ranks = observed["ranks"]
    run, forged_calls = replay(observed["logs"], cluster_of(case["num_ranks"]))
    num_wrong = num_different((each["result"] for each in ranks), right["results"])
    num_steep = num_different((each["gradient"] for each in ranks), right["gradients"])
    result = ranks[0]["result"] if num_wrong else right["results"][0]
    gradient = ranks[0]["gradient"] if num_steep else right["gradients"][0]
    others = [
        forged(forged_calls),
        *traffic(
            run,
            ["all_reduce"],
            ask_of_forward="In forward f copies and g sums. Which of the two needs the others?",
            ask_of_backward="What does one rank know of the gradient of x, and what of the "
            "gradient of its part of a sum?",
        ),
        wrong_results(num_wrong, "What should every rank hold after f, and what after g?"),
        Fact(
            "result_length",
            length_of([result]),
            "the length of rank 0's result",
            "Write down what goes into f or g on each rank. Which of these numbers does rank 0's "
            "result hold, and how often?",
        ),
        Fact(
            "wrong_gradients",
            num_steep,
            "ranks whose gradient of x is wrong",
            "Write the result as a formula of all ranks' inputs. What is its derivative with "
            "respect to the x of one rank?",
        ),
        Fact(
            "gradient_length",
            length_of([gradient]),
            "the norm of rank 0's gradient",
            "Write down the gradients that come from above on each rank. Which of them does rank "
            "0's gradient of x hold, and how often?",
        ),
        Fact(
            "changed",
            _num_changed(case, ranks),
            "tensors of a caller that have changed",
            "Which of your calls writes into a tensor that it was given, and what else holds that "
            "tensor?",
        ),
    ]
    return with_error(strided, others, right)


def _num_changed(case: Case, ranks: list[dict[str, Any]]) -> int:
    """How many inputs and incoming gradients hold other numbers than before."""
    before = [tensors_of(case, rank) for rank in range(case["num_ranks"])]
    of_inputs = num_changed((each["x"] for each in ranks), (x for x, _, _ in before))
    of_incoming = num_changed((each["incoming"] for each in ranks), (i for _, _, i in before))
    return of_inputs + of_incoming
