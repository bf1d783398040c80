"""What is observed of gradients that are summed where layers share a weight."""

from typing import Any

import torch
from torch import Tensor, nn

from autograder.checking.exercise_check import Case
from autograder.checking.fact import Fact
from autograder.checking.plain_data import Plain
from autograder.observers.after_backward import (
    changed_frozen,
    frozen,
    gradients_of,
    length,
    length_on_last,
    wrong_ranks,
)
from autograder.observers.on_ranks import bytes_in_calls, calls_made, cluster_of, most_calls
from autograder.observers.replay import forged, replay
from autograder.observers.tools import errors_as_data
from autograder.observers.u15.on_models import gradients_after, layers_of, missing, rows_of

NUM_LAYERS = 4


def model_of(case: Case, rank: int) -> nn.Module:
    """Square layers in a row, some of which share.

    The kind says what: a weight in two layers or in three, a bias, or a whole layer; or nothing,
    where two layers have equal numbers. A frozen layer keeps a gradient from before.
    """
    layers, kind = layers_of([case["width"]] * (NUM_LAYERS + 1), case["width"]), case["kind"]
    if kind in ("two", "frozen"):
        layers[3].weight = layers[0].weight
    if kind == "three":
        layers[2].weight = layers[3].weight = layers[0].weight
    if kind == "bias":
        layers[3].bias = layers[1].bias
    if kind == "layer":
        layers[3] = layers[1]
    if kind == "equal":
        layers[3].load_state_dict(layers[0].state_dict())
    if kind == "frozen":
        layers[1].requires_grad_(False)
        (bias,) = (each for each in layers[1].parameters() if each.dim() == 1)
        bias.grad = torch.full_like(bias, 1.0 + rank)
    return layers


def loss_of(model: nn.Module, case: Case, rank: int) -> Tensor:
    """A rank's share of the loss of the whole batch."""
    num_ranks: int = case["num_ranks"]
    share: Tensor = model(rows_of(1 + rank, case["width"], rank)).square().sum()
    return share / num_ranks


@errors_as_data
def observe(answer: Any, case: Case) -> dict[str, Any]:
    """Gradients of all ranks, of frozen parameters too, and what each rank did."""
    ranks = range(case["num_ranks"])
    models = [model_of(case, rank) for rank in ranks]
    losses = [(loss_of(model, case, rank),) for rank, model in enumerate(models)]
    observed = gradients_after(answer, models, losses)
    kept = [gradients_of(frozen(each)) for each in models]
    return {name: observed[name] for name in ("gradients", "logs")} | {"frozen": kept}


def facts(case: Case, observed: Plain, right: Plain) -> list[Fact]:
    """Gradients against those of the whole batch, and what was sent for them."""
    run, forged_calls = replay(observed["logs"], cluster_of(case["num_ranks"]))
    gradients, whole = observed["gradients"], right["gradients"]
    return [
        forged(forged_calls),
        missing(gradients, whole),
        calls_made(
            most_calls(run),
            "How many parameters are trained, each counted once, and how many calls do you make?",
        ),
        bytes_in_calls(run),
        length(gradients, "Which gradients are too large or too small, and by which factor?"),
        length_on_last(gradients),
        wrong_ranks(gradients, whole),
        changed_frozen(observed, right, "frozen parameters whose grad has changed"),
    ]
