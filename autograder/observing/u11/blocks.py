"""Blocks of a layer on several ranks: results, gradients, calls and FLOPs of each pass."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from autograder.checking.exercise_check import Case
from autograder.checking.plain_data import Plain
from autograder.observing.comparing import is_same, num_different
from autograder.observing.observation import (
    length_of,
    require_tensor,
    undisturbed,
    upstream,
)
from autograder.observing.replay import replay
from autograder.observing.u03.kept import random_tensors
from autograder.observing.u09.on_ranks import cluster_of, record_on_ranks
from autograder.observing.u11.enter_and_leave import enter_and_leave
from autograder.observing.u11.passes import LABELS as PASS_LABELS
from autograder.observing.u11.passes import end_forward, traffic
from course_utils.distributed import ClusterRun, Comm

Weights = Mapping[str, Tensor]

LABELS = PASS_LABELS | {
    "wrong_results": "ranks whose result is wrong",
    "result_length": "the length of rank 0's result",
    "wrong_x": "ranks whose gradient of x is wrong",
    "x_length": "the length of rank 0's gradient of x",
    "forward_flops": "FLOPs of the busiest rank in the forward pass",
    "backward_flops": "FLOPs of the busiest rank in the backward pass",
}


def random_block(shapes: Mapping[str, tuple[int, ...]], seed: int) -> tuple[Tensor, Weights]:
    """The input, called "x", and the whole weights of a block, all of which want a gradient."""
    tensors = random_tensors(seed, *shapes.values())
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
        recorded = record_on_ranks(num_ranks, on_rank)
    return {"ranks": recorded.results, "logs": recorded.logs}


def whole_block(
    x: Tensor, weights: Weights, compute: Callable[[Tensor, Weights], Tensor]
) -> dict[str, Any]:
    """Result and gradients on one rank alone."""
    result = compute(x, weights)
    result.backward(upstream(result))
    assert x.grad is not None
    return {
        "wrong_results": 0,
        "result_length": length_of([result]),
        "wrong_x": 0,
        "x_length": length_of([x.grad]),
        "result": result.detach(),
        "x": x.grad,
        "weights": {name: each.grad for name, each in weights.items()},
    }


def summarise_block(case: Case, observed: Plain, right: Plain) -> dict[str, float]:
    """Calls and FLOPs on the judge's cluster; results and gradients beside the right ones.

    Gradients of whole weights are summed over ranks, each of which used a part; that of a bias,
    which all ranks use whole, is the right one on each.
    """
    ranks = observed["ranks"]
    run, forged_calls = replay(observed["logs"], cluster_of(case["num_ranks"]))
    results, of_x = ([each[name] for each in ranks] for name in ("result", "x"))
    wrong_results = num_different(results, [right["result"]] * len(ranks))
    wrong_x = num_different(of_x, [right["x"]] * len(ranks))
    return {
        "forged_calls": forged_calls,
        **traffic(run, ["all_reduce"]),
        **busiest_flops(run, case["num_ranks"]),
        "wrong_results": wrong_results,
        "result_length": length_of([results[0] if wrong_results else right["result"]]),
        "wrong_x": wrong_x,
        "x_length": length_of([of_x[0] if wrong_x else right["x"]]),
        **{
            f"wrong_{name}": _wrong_weight(name, [each["weights"][name] for each in ranks], theirs)
            for name, theirs in right["weights"].items()
        },
    }


def _wrong_weight(name: str, ours: list[Tensor | None], theirs: Tensor) -> int:
    """Ranks with another gradient of a bias; one, if parts of another weight's do not sum up."""
    if name == "bias":
        return num_different(ours, [theirs] * len(ours))
    parts = [torch.zeros_like(theirs) if each is None else each for each in ours]
    is_like = all(each.shape == theirs.shape for each in parts)
    return int(not is_like or not is_same(torch.stack(parts).sum(0), theirs))


def busiest_flops(run: ClusterRun, num_ranks: int) -> dict[str, int]:
    """FLOPs of the busiest rank by pass, of a run on `cluster_of`."""
    rate = cluster_of(num_ranks).flops_per_second
    return {
        f"{name}_flops": max(
            round(rate * sum(e.end_seconds - e.start_seconds for e in _named(run, rank, name)))
            for rank in range(run.num_ranks)
        )
        for name in ("forward", "backward")
    }


def _named(run: ClusterRun, rank: int, name: str) -> list[Any]:
    return [each for each in run.of(rank, "compute") if each.name == name]
