"""What is observed of gradients that are summed where layers share a weight."""

from typing import Any

import torch
from torch import Tensor, nn

from autograder.checking.fact import Case, Fact, Plain
from autograder.observers.after_backward import changed_frozen, frozen, gradients_of
from autograder.observers.tools import errors_as_data
from autograder.observers.u15.on_models import (
    facts_of_sums,
    gradients_after,
    layers_of,
    replayed,
    rows_of,
)

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
    return observed | {"frozen": [gradients_of(frozen(each)) for each in models]}


def facts(case: Case, observed: Plain, right: Plain) -> list[Fact]:
    """Gradients against those of the whole batch, and what was sent for them."""
    of_sums = facts_of_sums(
        replayed(case, observed),
        observed,
        right,
        ask_calls="How many parameters are trained, each counted once, and how many calls do you "
        "make?",
        ask_length="Which gradients are too large or too small, and by which factor?",
    )
    return [
        *of_sums,
        changed_frozen(observed, right, "frozen parameters whose grad has changed"),
    ]
