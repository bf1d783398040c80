"""What is observed of a training whose ranks begin with weights of their own."""

from typing import Any

import torch
from torch import Tensor, nn

from autograder.checking.exercise_check import Case
from autograder.checking.plain_data import Plain
from autograder.checking.result_form import require_form
from autograder.observing.comparing import num_different
from autograder.observing.observation import errors_as_data, undisturbed
from autograder.observing.u09.on_ranks import record_on_ranks
from autograder.observing.u15.on_models import calls_and_bytes, layers_of, rows_of
from course_utils.distributed import Comm

LEARNING_RATE = 0.01


class Scaled(nn.Module):
    """Two layers, and a buffer that scales what comes out."""

    def __init__(self, width: int, rank: int) -> None:
        """Make weights and buffer of a rank."""
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


def summarise(case: Case, observed: Plain, right: Plain) -> dict[str, float]:
    """Weights and buffers against those of one rank, and what was sent."""
    first, *others = observed["weights"]
    weights = [num_different(each, right["weights"]) > 0 for each in observed["weights"]]
    distance = _distance(first, right["weights"])
    buffers = [num_different(each, right["buffers"]) > 0 for each in observed["buffers"]]
    return {
        "apart": sum(num_different(each, first) > 0 for each in others),
        "wrong_weights": sum(weights),
        "distance": distance,
        "wrong_buffers": sum(buffers),
    } | calls_and_bytes(observed, case["num_ranks"])


def _distance(ours: list[Tensor], theirs: list[Tensor]) -> float:
    """How far weights are from the right ones; what rounding explains is none."""
    if not num_different(ours, theirs):
        return 0.0
    for pair in zip(ours, theirs, strict=True):
        require_form(*pair)
    return float(torch.stack([(a - b).norm() for a, b in zip(ours, theirs, strict=True)]).norm())
