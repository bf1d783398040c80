"""What is observed of gradients that travel several in one call."""

from typing import Any

from torch import Tensor, nn

from autograder.checking.exercise_check import Case
from autograder.checking.plain_data import Plain
from autograder.observing.observation import errors_as_data
from autograder.observing.replay import replay
from autograder.observing.u09.on_ranks import cluster_of
from autograder.observing.u15.on_models import (
    counted,
    gradient_numbers,
    gradients_after,
    layers_of,
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
    observed = gradients_after(answer, models, given)
    return {name: observed[name] for name in ("gradients", "logs")}


def summarise(case: Case, observed: Plain, right: Plain) -> dict[str, float]:
    """Gradients against those of the whole batch, and the bytes of each bucket."""
    replayed = replay(observed["logs"], cluster_of(case["num_ranks"]))
    sent = [each.num_bytes for each in replayed.run.communications()]
    pairs = zip(sent, right["buckets"], strict=False)
    return (
        counted(replayed)
        | gradient_numbers(observed, right["gradients"])
        | {"other_buckets": sum(ours != wanted for ours, wanted in pairs)}
    )
