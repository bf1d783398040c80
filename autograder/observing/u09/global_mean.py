"""A rank's share of a mean: shares, their gradients, and what was said for them."""

from operator import ne
from typing import Any

import torch
from torch import Tensor

from autograder.checking.exercise_check import Case
from autograder.checking.plain_data import Plain
from autograder.observing.observation import errors_as_data, require_tensor
from autograder.observing.replay import replay
from autograder.observing.u09.on_ranks import cluster_of, most_calls, record_on_ranks
from course_utils.distributed import Comm


def _on_rank(comm: Comm, answer: Any, case: Case) -> tuple[float, float | None, float]:
    """A rank's share, its gradient if backward leads from it to the rank's own loss, that loss.

    The loss is proportional to the square of a weight of one.
    """
    weight = torch.ones((), dtype=torch.float64, requires_grad=True)
    loss: Tensor = weight.square() * case["summed_losses"][comm.rank]
    share = require_tensor(answer(comm, loss, case["num_targets"][comm.rank]))
    if share.requires_grad:
        share.sum().backward()
    gradient = None if weight.grad is None else weight.grad.item()
    return share.sum().item(), gradient, loss.item()


@errors_as_data
def observe(answer: Any, case: Case) -> dict[str, Any]:
    """The share of each rank, its gradient, the loss that was given, and all calls."""
    recorded = record_on_ranks(len(case["num_targets"]), _on_rank, answer, case)
    return {"shares": recorded.results, "logs": recorded.logs}


def summarise(case: Case, observed: Plain, right: Plain) -> dict[str, float]:
    """Shares and gradients, summed over the ranks, and what was communicated."""
    num_targets = case["num_targets"]
    run, forged_calls = replay(observed["logs"], cluster_of(len(num_targets)))
    shares, gradients, losses = zip(*observed["shares"], strict=True)
    needs_no_call = len(num_targets) == 1 or not any(num_targets)
    return {
        "forged_calls": forged_calls,
        "shares": sum(shares),
        "gradient": sum(each or 0.0 for each in gradients),
        "calls": max(most_calls(run), int(needs_no_call)),
        "dead_ends": gradients.count(None),
        "changed_losses": sum(map(ne, losses, case["summed_losses"])),
    }
