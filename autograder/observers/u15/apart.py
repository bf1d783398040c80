"""What is observed of a training whose ranks begin with weights of their own."""

from typing import Any

import torch
from torch import Tensor, nn

from autograder.checking.fact import Case, Fact, Plain
from autograder.checking.result_form import require_form
from autograder.observers.comparing import num_different
from autograder.observers.on_ranks import (
    bytes_in_calls,
    calls_made,
    cluster_of,
    most_calls,
    record_on_ranks,
)
from autograder.observers.replay import forged, replay
from autograder.observers.tools import errors_as_data, undisturbed
from autograder.observers.u15.on_models import layers_of, rows_of
from course_utils.distributed import Comm

LEARNING_RATE = 0.01

WHAT_IS_SENT = "What is sent once, what in every step, and what never?"


class Scaled(nn.Module):
    """Two layers, and a buffer that scales what comes out."""

    def __init__(self, width: int, rank: int) -> None:
        super().__init__()
        self.layers = layers_of([width, width + 1, 2], 100 * width + rank)
        self.register_buffer("scale", 1 + rows_of(1, 2, rank)[0].abs())

    def forward(self, rows: Tensor) -> Tensor:
        """From (rows, width) to (rows, 2)."""
        scaled: Tensor = self.layers(rows) * self.scale
        return scaled


def model_of(case: Case, rank: int) -> Scaled:
    """The model that a rank begins with."""
    return Scaled(case["width"], rank)


def batches_of(case: Case) -> list[Tensor]:
    """The batches that all ranks share."""
    return [rows_of(case["num_rows"], case["width"], n) for n in range(case["num_steps"])]


@errors_as_data
def observe(answer: Any, case: Case) -> dict[str, Any]:
    """Weights and buffers of all ranks afterwards, and what each rank did."""
    models = [model_of(case, rank) for rank in range(case["num_ranks"])]

    def train(comm: Comm) -> None:
        answer(comm, models[comm.rank], batches_of(case), LEARNING_RATE)

    with undisturbed():
        recorded = record_on_ranks(case["num_ranks"], train)
    return {
        "weights": [[p.detach().clone() for p in each.parameters()] for each in models],
        "buffers": [[b.clone() for b in each.buffers()] for each in models],
        "logs": recorded.logs,
    }


def facts(case: Case, observed: Plain, right: Plain) -> list[Fact]:
    """Weights and buffers against those of one rank, and what was sent."""
    run, forged_calls = replay(observed["logs"], cluster_of(case["num_ranks"]))
    first, *others = observed["weights"]
    return [
        forged(forged_calls),
        calls_made(most_calls(run), WHAT_IS_SENT),
        bytes_in_calls(run, WHAT_IS_SENT),
        Fact(
            "apart",
            sum(num_different(each, first) > 0 for each in others),
            "ranks whose weights are not rank 0's afterwards",
            "Ranks end with different weights. Were they equal at the start?",
        ),
        Fact(
            "wrong_buffers",
            sum(num_different(each, right["buffers"]) > 0 for each in observed["buffers"]),
            "ranks whose buffers are not those of rank 0",
            "Which of a model's tensors are not parameters, and whose should all ranks have?",
        ),
        Fact(
            "wrong_weights",
            sum(num_different(each, right["weights"]) > 0 for each in observed["weights"]),
            "ranks without the weights of one rank with all rows",
            "Ranks agree, but on other weights than one rank would reach. Where do they start, and "
            "which steps do they take?",
        ),
        Fact(
            "distance",
            _distance(first, right["weights"]),
            "how far rank 0's weights are off",
            "From which weights does rank 0 start, and what does each step subtract from them?",
        ),
    ]


def _distance(ours: list[Tensor], theirs: list[Tensor]) -> float:
    """How far weights are from the right ones; what rounding explains is none."""
    if not num_different(ours, theirs):
        return 0.0
    for pair in zip(ours, theirs, strict=True):
        require_form(*pair)
    return float(torch.stack([(a - b).norm() for a, b in zip(ours, theirs, strict=True)]).norm())
