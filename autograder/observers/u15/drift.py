"""What is observed of gradients that travel several in one call."""

from typing import Any

from torch import Tensor, nn

from autograder.checking.exercise_check import Case
from autograder.checking.fact import Fact
from autograder.checking.plain_data import Plain
from autograder.observers.after_backward import length, length_on_last, wrong_ranks
from autograder.observers.on_ranks import bytes_in_calls, calls_made, cluster_of, most_calls
from autograder.observers.replay import forged, replay
from autograder.observers.tools import errors_as_data
from autograder.observers.u15.on_models import gradients_after, layers_of, missing, rows_of


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


def facts(case: Case, observed: Plain, right: Plain) -> list[Fact]:
    """Gradients against those of the whole batch, and the bytes of each bucket."""
    run, forged_calls = replay(observed["logs"], cluster_of(case["num_ranks"]))
    gradients, whole = observed["gradients"], right["gradients"]
    sent = [each.num_bytes for each in run.communications()]
    pairs = zip(sent, right["buckets"], strict=False)
    return [
        forged(forged_calls),
        missing(gradients, whole),
        calls_made(most_calls(run), "How many buckets are there, with the one that is not full?"),
        bytes_in_calls(run, "How often is each gradient sent?"),
        length(
            gradients,
            "Which gradients are the sum over all ranks, and which still one rank's own?",
        ),
        length_on_last(gradients),
        wrong_ranks(gradients, whole),
        Fact(
            "other_buckets",
            sum(ours != wanted for ours, wanted in pairs),
            "buckets of the wrong size",
            "Which gradients belong to which bucket, from first to last?",
        ),
    ]
