"""Blocks of a layer on several ranks: results, gradients, calls and FLOPs of each pass."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from autograder.checking.fact import Case, Fact, Plain
from autograder.observers.comparing import is_same, num_different
from autograder.observers.on_ranks import cluster_of, record_on_ranks
from autograder.observers.random_numbers import normal_numbers
from autograder.observers.tools import (
    length_of,
    require_tensor,
    undisturbed,
    upstream,
)
from autograder.observers.u11.enter_and_leave import enter_and_leave
from autograder.observers.u11.named_errors import silent_ranks
from autograder.observers.u11.passes import end_forward
from autograder.observers.u11.results import wrong_results
from course_utils.distributed import ClusterRun, Comm, Event

Weights = Mapping[str, Tensor]


def random_block(shapes: Mapping[str, tuple[int, ...]], seed: int) -> tuple[Tensor, Weights]:
    """The input, called "x", and the whole weights of a block, all of which want a gradient."""
    tensors = normal_numbers(seed, *shapes.values())
    named = {
        name: each.mul(0.5).requires_grad_() for name, each in zip(shapes, tensors, strict=True)
    }
    return named.pop("x"), named


def observe_block(
    num_ranks: int, make: Callable[[], tuple[Tensor, Weights]], call: Callable[..., Any]
) -> dict[str, Any]:
    """Run ``call(comm, f, g, x, weights)`` on ranks that all have the whole weights.

    Returns:
        Result and gradients of each rank, and the calls of all.
    """

    def on_rank(comm: Comm) -> dict[str, Any]:
        x, weights = make()
        result = require_tensor(call(comm, *enter_and_leave(comm), x, dict(weights)))
        end_forward(comm)
        if result.requires_grad:
            result.backward(upstream(result))
        gradients = {name: each.grad for name, each in weights.items()}
        return {"result": result.detach(), "x": x.grad, "weights": gradients}

    with undisturbed():
        return record_on_ranks(num_ranks, on_rank)._asdict()


def whole_block(
    x: Tensor, weights: Weights, compute: Callable[[Tensor, Weights], Tensor]
) -> dict[str, Any]:
    """Result and gradients on one rank alone."""
    result = compute(x, weights)
    result.backward(upstream(result))
    assert x.grad is not None
    return {
        "result_length": length_of([result]),
        "x_length": length_of([x.grad]),
        "result": result.detach(),
        "x": x.grad,
        "weights": {name: each.grad for name, each in weights.items()},
    }


def silent_block(case: Case, right: Plain) -> dict[str, Any]:
    """In place of the observation of a block that an error has ended."""
    nothing = {"result": None, "x": None, "weights": dict.fromkeys(right["weights"])}
    return silent_ranks(case["num_ranks"], nothing)


def result_facts(observed: Plain, right: Plain, ask: str) -> list[Fact]:
    """The results of all ranks beside that of one rank alone."""
    results = [each["result"] for each in observed["ranks"]]
    num_wrong = num_different(results, [right["result"]] * len(results))
    return [
        wrong_results(num_wrong, ask),
        Fact(
            "result_length",
            length_of([results[0] if num_wrong else right["result"]]),
            "the length of rank 0's result",
            "Compare rank 0's result with that of one rank alone. Are all numbers off by the same "
            "factor, or only some of them?",
        ),
    ]


def input_facts(observed: Plain, right: Plain) -> list[Fact]:
    """The gradients of x of all ranks beside that of one rank alone."""
    of_x = [each["x"] for each in observed["ranks"]]
    num_wrong = num_different(of_x, [right["x"]] * len(of_x))
    return [
        Fact(
            "wrong_x",
            num_wrong,
            "ranks whose gradient of x is wrong",
            "Which of your products use x, and what stands between x and each of them?",
        ),
        Fact(
            "x_length",
            length_of([of_x[0] if num_wrong else right["x"]]),
            "the length of rank 0's gradient of x",
            "Which products add to the gradient of x on one rank alone, and which of them are "
            "missing in rank 0's, or come in twice?",
        ),
    ]


def weight_fact(name: str, cut: str, observed: Plain, right: Plain) -> Fact:
    """Whether all ranks' gradients of a weight add up to the right one.

    Each rank has the whole weight, and uses some of its rows, or of its columns.
    """
    theirs = right["weights"][name]
    ours = [each["weights"][name] for each in observed["ranks"]]
    parts = [torch.zeros_like(theirs) if each is None else each for each in ours]
    is_like = all(each.shape == theirs.shape for each in parts)
    return Fact(
        f"wrong_{name}",
        int(not is_like or not is_same(torch.stack(parts).sum(0), theirs)),
        f"The parts of the gradient of {name} are wrong.",
        f"With which {cut} of `{name}` does each rank multiply, and can autograd follow them back "
        "to the whole weight?",
    )


def flops_facts(
    run: ClusterRun, num_ranks: int, *, ask_of_forward: str, ask_of_backward: str
) -> list[Fact]:
    """FLOPs of the busiest rank by pass, of a run on `cluster_of`."""
    return [
        Fact(
            "forward_flops",
            _busiest_flops(run, num_ranks, "forward"),
            "FLOPs of the busiest rank in the forward pass",
            ask_of_forward,
        ),
        Fact(
            "backward_flops",
            _busiest_flops(run, num_ranks, "backward"),
            "FLOPs of the busiest rank in the backward pass",
            ask_of_backward,
        ),
    ]


def _busiest_flops(run: ClusterRun, num_ranks: int, name: str) -> int:
    """FLOPs of the rank that computes most in a pass."""
    rate = cluster_of(num_ranks).flops_per_second
    return max(
        round(rate * sum(e.end_seconds - e.start_seconds for e in _named(run, rank, name)))
        for rank in range(run.num_ranks)
    )


def _named(run: ClusterRun, rank: int, name: str) -> list[Event]:
    return [each for each in run.of(rank, "compute") if each.name == name]
