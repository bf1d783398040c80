"""What is observed of a gradient that is clipped by its norm."""

from typing import Any

from torch import Tensor, nn

from autograder.checking.fact import Case, Fact, Plain
from autograder.checking.result_form import require_form
from autograder.observers.after_backward import length
from autograder.observers.on_ranks import bytes_in_calls, calls_made, most_calls
from autograder.observers.replay import forged
from autograder.observers.tools import errors_as_data, length_of, require_one_number
from autograder.observers.u15.on_models import (
    gradients_after,
    layers_of,
    missing,
    replayed,
    rows_of,
)
from course_utils.distributed import Comm

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
    norms: list[Any] = [None] * case["num_ranks"]

    def clip(comm: Comm, model: nn.Module, loss: Tensor, max_norm: float) -> None:
        norms[comm.rank] = answer(comm, model, loss, max_norm)

    observed = gradients_after(clip, models, given)
    return observed | {"norms": [require_one_number(each, "a norm, a number") for each in norms]}


def facts(case: Case, observed: Plain, right: Plain) -> list[Fact]:
    """Norms and gradients against those of the whole batch, and what was sent."""
    run, forged_calls = replayed(case, observed)
    gradients, norms = observed["gradients"], observed["norms"]
    return [
        forged(forged_calls),
        missing(gradients, right["gradients"]),
        calls_made(
            most_calls(run),
            "How many calls are needed until every rank can compute the norm by itself?",
        ),
        bytes_in_calls(run),
        length(gradients, "Which gradient should obey the limit, and when is it complete?"),
        Fact(
            "wrong_ranks",
            sum(_is_far(ours, right["gradients"]) for ours in gradients),
            "ranks without the clipped gradient of the whole batch",
            "Rank 0's gradient has the right length. Do all ranks end with it, and does your "
            "clipping keep the direction of the whole batch's gradient?",
        ),
        Fact(
            "norm",
            norms[0],
            "the norm that rank 0 returns",
            "Which gradient's norm do you return?",
        ),
        Fact(
            "norm_on_last",
            norms[-1],
            "the norm that the last rank returns",
            "Rank 0 returns the right norm, but the last rank does not. Which gradient does the "
            "last rank have at the moment when it computes its norm?",
        ),
    ]


def _is_far(ours: list[Tensor | None], theirs: list[Tensor]) -> bool:
    """Whether gradients as one vector differ by more than PyTorch's epsilon explains."""
    for each, other in zip(ours, theirs, strict=True):
        if each is not None:
            require_form(each, other)
    off = [
        other if each is None else each - other for each, other in zip(ours, theirs, strict=True)
    ]
    return not length_of(off) <= WITH_EPSILON * length_of(theirs)
