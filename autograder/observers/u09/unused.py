"""What is observed of a backward pass in buckets that are fixed beforehand."""

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from autograder.checking.fact import Case, Fact, Plain
from autograder.observers.backward_steps import (
    NUM_ROWS,
    WHEN_SUMS_COME_BACK,
    Job,
    backward_passes,
    calls,
    compute_seconds,
    gradient_length,
    left_behind,
    num_wrong,
    observe_step,
    other_buckets,
    random_rows,
    waits,
    wrong_gradients,
)
from autograder.observers.random_numbers import whole_numbers
from autograder.observers.replay import forged, replay
from autograder.observers.tools import errors_as_data, length_of, undisturbed
from course_utils.distributed import VirtualCluster

BANDWIDTH = 8


class _Matrix(nn.Module):
    """One weight, which another matrix may share."""

    def __init__(self, weight: nn.Parameter) -> None:
        super().__init__()
        self.weight = weight


class Matrices(nn.Module):
    """Matrices in a row; unused ones get no gradient.

    If shared, two matrices in the middle have the same weight. If reordered, two pairs of matrices
    are made in one order and used in the other; if swapped, the last two are.

    Attributes:
        weights: Of each matrix, as they are made.
        order: In which they are used.
    """

    def __init__(self, widths: list[int], kind: str) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(sum(widths))
        shapes = list(zip(widths[1:], widths, strict=False))
        weights = [whole_numbers(each, generator) for each in shapes]
        parameters = [nn.Parameter(weight) for weight in weights]
        self.order = list(range(len(parameters)))
        if kind == "shared":
            parameters[2] = parameters[1]
        if kind == "reordered":
            # The permutation is its own inverse, so that `order` puts the matrices back in a row.
            parameters = [parameters[n] for n in (0, 3, 4, 1, 2)]
            self.order = [0, 3, 4, 1, 2]
        if kind == "swapped":
            self.order = [0, 1, 3, 2]
            parameters = [parameters[n] for n in self.order]
        self.weights = parameters
        self.matrices = nn.ModuleList(_Matrix(each) for each in parameters)

    def forward(self, x: Tensor, unused: list[int]) -> Tensor:
        """From (rows, first width) to (rows, last width)."""
        for n in self.order:
            x = F.linear(x, self.weights[n].detach() if n in unused else self.weights[n])
        return x


def model_of(case: Case) -> Matrices:
    """The model of a case, with the same weights every time."""
    return Matrices(case["widths"], case["kind"]).to(_precision(case))


def _precision(case: Case) -> torch.dtype:
    return torch.float32 if case["kind"] == "float32" else torch.float64


def loss_of(case: Case, model: Matrices, rank: int) -> Tensor:
    """A rank's share of the mean."""
    rows = random_rows(case["widths"][0], rank).to(_precision(case))
    squares: Tensor = model(rows, case["unused"][rank]).square().sum()
    return squares / (len(case["unused"]) * NUM_ROWS)


def _cluster_of(case: Case) -> VirtualCluster:
    return Job(widths=(), num_ranks=len(case["unused"]), bandwidth=BANDWIDTH).cluster()


@errors_as_data
def observe(answer: Any, case: Case) -> object:
    """Gradients, hooks and calls of all ranks, under the student's backward."""
    models, others = ([model_of(case) for _ in case["unused"]] for _ in range(2))
    with undisturbed():
        return observe_step(
            lambda comm, model, loss: answer(comm, model, loss, case["bucket_bytes"]),
            _cluster_of(case),
            models,
            others,
            partial(loss_of, case),
        )


def facts(case: Case, observed: Plain, right: Plain) -> list[Fact]:
    """Gradients, buckets and their moments, beside what is right."""
    run, forged_calls = replay(observed["logs"], _cluster_of(case))
    gradients = observed["gradients"]
    sent = [zip(calls(run.of(n)), each, strict=False) for n, each in enumerate(right["buckets"])]
    pairs = [pair for each in sent for pair in each]
    wrong = num_wrong(gradients, right["gradients"])
    return [
        forged(forged_calls),
        backward_passes(observed),
        Fact(
            "collectives",
            len(run.communications()),
            ask="Into how many buckets do the parameters fall, each counted once, and how often is "
            "every bucket sent?",
        ),
        other_buckets(
            sum(one.num_bytes != num_bytes for one, (num_bytes, _) in pairs),
            "The ranks' buckets must be equal, whatever a rank uses. From what do all of them know "
            "which parameters share a bucket?",
        ),
        Fact(
            "missing_gradients",
            sum(each is None for ours in gradients for each in ours),
            "gradients that are None afterwards",
            "A gradient is None afterwards. What does its bucket hold, and where does that go?",
        ),
        gradient_length(
            length_of(gradients[0] if wrong else right["gradients"]),
            "Gradients are not the sum over all ranks. Which numbers are in a bucket when it "
            "leaves, and into which tensors does its sum come back?",
        ),
        wrong_gradients(wrong, WHEN_SUMS_COME_BACK),
        waits(run),
        Fact(
            "other_moments",
            sum(one.seconds != seconds for one, (_, seconds) in pairs),
            "buckets that leave at another moment",
            "A bucket leaves at the wrong moment. For which of its gradients does a rank wait?",
        ),
        compute_seconds(run),
        *left_behind(observed, right),
    ]
