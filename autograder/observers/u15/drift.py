"""What is observed of gradients that travel several in one call."""

from operator import ne
from typing import Any

from torch import Tensor, nn

from autograder.checking.fact import Case, Fact, Plain
from autograder.observers.tools import errors_as_data
from autograder.observers.u15.on_models import (
    facts_of_sums,
    gradients_after,
    layers_of,
    replayed,
    rows_of,
)


def model_of(case: Case) -> nn.Module:
    """Layers whose parameters differ in size, with the same weights on each rank."""
    return layers_of(case["widths"], sum(case["widths"]))


def loss_of(model: nn.Module, case: Case, rank: int) -> Tensor:
    """A rank's share of the loss of the whole batch."""
    num_ranks: int = case["num_ranks"]
    share: Tensor = model(rows_of(2, case["widths"][0], rank)).square().sum()
    return share / num_ranks


@errors_as_data
def observe(answer: Any, case: Case) -> dict[str, Any]:
    """Gradients of all ranks, and what each rank did."""
    models = [model_of(case) for _ in range(case["num_ranks"])]
    given = [(loss_of(model, case, n), case["bucket_bytes"]) for n, model in enumerate(models)]
    return gradients_after(answer, models, given)


def facts(case: Case, observed: Plain, right: Plain) -> list[Fact]:
    """Gradients against those of the whole batch, and the bytes of each bucket."""
    calls = replayed(case, observed)
    sent = [each.num_bytes for each in calls.run.communications()]
    of_sums = facts_of_sums(
        calls,
        observed,
        right,
        ask_calls="How many buckets are there, with the one that is not full?",
        ask_bytes="How often is each gradient sent?",
        ask_length="Which gradients are the sum over all ranks, and which still one rank's own?",
    )
    return [
        *of_sums,
        Fact(
            "other_buckets",
            sum(map(ne, sent, right["buckets"])),
            "buckets of the wrong size",
            "Which gradients belong to which bucket, from first to last?",
        ),
    ]
