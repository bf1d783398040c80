"""A repaired trainer on the ranks of a virtual cluster: the model of each rank, and what it did."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from autograder.checking.fact import Case, Fact, Plain
from autograder.observers import after_backward
from autograder.observers.after_backward import (
    Gradients,
    gradients_of,
    length,
    length_on_last,
    wrong_ranks,
)
from autograder.observers.on_ranks import (
    WHICH_TENSOR,
    bytes_in_calls,
    calls_made,
    cluster_of,
    most_calls,
    record_on_ranks,
)
from autograder.observers.replay import Replay, forged, replay
from autograder.observers.tools import undisturbed


def layers_of(widths: Sequence[int], seed: int) -> nn.Sequential:
    """Layers with biases between neighbouring widths, with the same weights for the same seed."""
    layers = [nn.Linear(*pair, dtype=torch.float64) for pair in pairwise(widths)]
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for each in (each for layer in layers for each in layer.parameters()):
            each.copy_(_numbers(each.shape, generator))
    return nn.Sequential(*layers)


def rows_of(num_rows: int, width: int, seed: int) -> Tensor:
    """Random rows, the same for the same seed."""
    generator = torch.Generator().manual_seed(seed)
    return _numbers((num_rows, width), generator)


def _numbers(shape: Sequence[int], generator: torch.Generator) -> Tensor:
    """Nearly normal numbers, the same on every machine: sums of twelve, without a logarithm."""
    one = 2**20
    sums = torch.randint(one, (12, *shape), generator=generator).sum(0)
    return (sums - 6 * one).double() / one


def fill_gradients(model: nn.Module, rank: int) -> None:
    """Set gradients that a rank has before the step, different on each."""
    for each in model.parameters():
        each.grad = torch.sin(each.detach() + rank)


def gradients_after(
    trainer: Callable[..., Any], models: Sequence[nn.Module], given: Sequence[Sequence[Any]]
) -> dict[str, Any]:
    """What is in ``grad`` on each rank after a trainer, and what each rank did.

    Args:
        trainer: Called with the connection, the model and what else is given to the rank.
        models: Of each rank.
        given: What else each rank is given.
    """
    with undisturbed():
        recorded = record_on_ranks(
            len(models), lambda comm: trainer(comm, models[comm.rank], *given[comm.rank])
        )
    return {
        "gradients": [gradients_of(list(each.parameters())) for each in models],
        "logs": recorded.logs,
    }


WHO_ASSIGNS = (
    "Gradients are None afterwards. On which ranks does backward run, and which of your lines "
    "assign to `grad` after it, and which value?"
)


def replayed(case: Case, observed: Plain) -> Replay:
    """The calls of all ranks, made again."""
    return replay(observed["logs"], cluster_of(case["num_ranks"]))


def facts_of_sums(  # noqa: PLR0913  questions by name
    calls: Replay,
    observed: Plain,
    right: Plain,
    *,
    ask_calls: str,
    ask_length: str,
    ask_missing: str = WHO_ASSIGNS,
    ask_bytes: str = WHICH_TENSOR,
) -> list[Fact]:
    """Gradients beside those of the whole batch, and what was sent; questions of an exercise."""
    gradients, whole = observed["gradients"], right["gradients"]
    return [
        forged(calls.forged_calls),
        missing(gradients, whole, ask_missing),
        calls_made(most_calls(calls.run), ask_calls),
        bytes_in_calls(calls.run, ask_bytes),
        length(gradients, ask_length),
        length_on_last(gradients),
        wrong_ranks(gradients, whole),
    ]


def missing(gradients: Sequence[Gradients], whole: Gradients, ask: str = WHO_ASSIGNS) -> Fact:
    """Gradients of all ranks that are None and should not be."""
    pairs = [pair for ours in gradients for pair in zip(ours, whole, strict=True)]
    num_gradients = sum(mine is None and other is not None for mine, other in pairs)
    return after_backward.missing(num_gradients, ask)
