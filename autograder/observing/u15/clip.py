"""What is observed of a gradient that is clipped by its norm."""

from typing import Any

from torch import Tensor, nn

from autograder.checking.exercise_check import Case
from autograder.checking.plain_data import Plain
from autograder.checking.result_form import require_form
from autograder.observing.observation import errors_as_data, length_of, require_one_number
from autograder.observing.u15.on_models import (
    calls_and_bytes,
    gradients_after,
    layers_of,
    num_missing,
    rows_of,
)

# PyTorch adds 1e-6 to the norm that it divides by.
WITH_EPSILON = 1e-5


def model_of(case: Case) -> nn.Module:
    """Two layers, with the same weights on each rank."""
    return layers_of([case["width"], 3, 2], case["width"])


def loss_of(model: nn.Module, case: Case, rank: int) -> Tensor:
    """A rank's share: ranks pull in one direction, nearly against each other, or anyhow.

    Where they nearly cancel, something is left even of two gradients of one length.
    """
    rows = rows_of(2, case["width"], rank if case["kind"] == "mixed" else 0)
    if is_opposed := case["kind"] == "opposed":
        rows = rows + rows_of(2, case["width"], 1 + rank) / 16
    sign = -0.9 if is_opposed and rank % 2 else 1.0
    num_ranks: int = case["num_ranks"]
    share: Tensor = model(rows).sum() * sign
    return share / num_ranks


@errors_as_data
def observe(answer: Any, case: Case) -> dict[str, Any]:
    """Gradients of all ranks, the norms that they return, and what each rank did."""
    models = [model_of(case) for _ in range(case["num_ranks"])]
    given = [(loss_of(model, case, n), case["max_norm"]) for n, model in enumerate(models)]
    observed = gradients_after(answer, models, given)
    norms = [require_one_number(each, "a norm, a number") for each in observed["results"]]
    return {name: observed[name] for name in ("gradients", "logs")} | {"norms": norms}


def summarise(case: Case, observed: Plain, right: Plain) -> dict[str, float]:
    """Norms and gradients against those of the whole batch, and what was sent."""
    gradients, norms = observed["gradients"], observed["norms"]
    return calls_and_bytes(observed, case["num_ranks"]) | {
        "missing": sum(num_missing(ours, right["gradients"]) for ours in gradients),
        "norm": norms[0],
        "norm_on_last": norms[-1],
        "length": length_of(gradients[0]),
        "wrong_ranks": sum(_is_far(ours, right["gradients"]) for ours in gradients),
    }


def _is_far(ours: list[Tensor | None], theirs: list[Tensor]) -> bool:
    """Whether gradients as one vector differ by more than PyTorch's epsilon explains."""
    for each, other in zip(ours, theirs, strict=True):
        if each is not None:
            require_form(each, other)
    off = [
        other if each is None else each - other for each, other in zip(ours, theirs, strict=True)
    ]
    return not length_of(off) <= WITH_EPSILON * length_of(theirs)
