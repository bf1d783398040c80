"""A rank's share of a mean: shares, their gradients, and what was said for them."""

from operator import ne
from typing import Any

import torch
from torch import Tensor

from autograder.checking.fact import Case, Fact, Plain
from autograder.observers.on_ranks import calls_made, cluster_of, most_calls, record_on_ranks
from autograder.observers.replay import forged, replay
from autograder.observers.tools import errors_as_data, require_tensor
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
    return {"shares": recorded.ranks, "logs": recorded.logs}


def facts(case: Case, observed: Plain, right: Plain) -> list[Fact]:
    """Shares and gradients, summed over the ranks, and what was communicated."""
    num_targets = case["num_targets"]
    run, forged_calls = replay(observed["logs"], cluster_of(len(num_targets)))
    shares, gradients, losses = zip(*observed["shares"], strict=True)
    needs_no_call = len(num_targets) == 1 or not any(num_targets)
    return [
        forged(forged_calls),
        Fact(
            "shares",
            sum(shares),
            "the sum of all shares",
            "Written as a fraction: whose losses stand above the line in a rank's share, whose "
            "targets are counted below it, and is that count exact?",
        ),
        Fact(
            "gradient",
            sum(each or 0.0 for each in gradients),
            "the gradient of that sum",
            "The shares add up to the right number, and their gradients do not. Through which "
            "operations does backward go from a rank's share to its own summed loss?",
        ),
        calls_made(
            max(most_calls(run), int(needs_no_call)),
            "What does a rank need to know about the others before it can divide its loss, and "
            "which of your calls tells it?",
        ),
        Fact(
            "dead_ends",
            gradients.count(None),
            "ranks whose share is cut off from the loss",
            "On which ranks does backward find no way from the share to the summed loss that came "
            "in, and what do you return there?",
        ),
        Fact(
            "changed_losses",
            sum(map(ne, losses, case["summed_losses"])),
            "ranks whose summed loss has changed",
            "`summed_loss` should hold the same number afterwards. Which operation or call writes "
            "into its memory?",
        ),
    ]
