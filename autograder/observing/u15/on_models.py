"""A repaired trainer on the ranks of a virtual cluster: the model of each rank, and what it did."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from autograder.checking.plain_data import Plain
from autograder.observing.comparing import num_different
from autograder.observing.observation import length_of, undisturbed
from autograder.observing.replay import Replay, replay
from autograder.observing.u09.after_backward import gradients_of
from autograder.observing.u09.on_ranks import cluster_of, most_calls, record_on_ranks


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
        "results": recorded.results,
        "logs": recorded.logs,
    }


def calls_and_bytes(observed: Plain, num_ranks: int) -> dict[str, int]:
    """Calls and bytes, as the judge's own cluster counts them."""
    return counted(replay(observed["logs"], cluster_of(num_ranks)))


def counted(replayed: Replay) -> dict[str, int]:
    """Calls, those that are forged, and bytes of rank 0."""
    run, forged_calls = replayed
    return {
        "forged_calls": forged_calls,
        "calls": most_calls(run),
        "bytes": sum(each.num_bytes for each in run.communications()),
    }


def gradient_numbers(observed: Plain, whole: Sequence[Tensor | None]) -> dict[str, float]:
    """Gradients of all ranks against those of the whole batch on one rank."""
    gradients = observed["gradients"]
    return {
        "missing": sum(num_missing(ours, whole) for ours in gradients),
        "length": length_of(gradients[0]),
        "length_on_last": length_of(gradients[-1]),
        "wrong_ranks": sum(num_different(ours, whole) > 0 for ours in gradients),
    }


def num_missing(ours: Sequence[Tensor | None], theirs: Sequence[Tensor | None]) -> int:
    """How many gradients are None that should not be."""
    pairs = zip(ours, theirs, strict=True)
    return sum(mine is None and other is not None for mine, other in pairs)
