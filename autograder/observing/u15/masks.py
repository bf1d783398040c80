"""What is observed of dropout on several ranks: every mask, and whether a run can be repeated."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from autograder.checking.exercise_check import Case
from autograder.checking.plain_data import Plain
from autograder.observing.comparing import num_different
from autograder.observing.observation import errors_as_data, undisturbed
from autograder.observing.u09.after_backward import gradients_of
from autograder.observing.u09.on_ranks import cluster_of, record_on_cluster
from autograder.observing.u15.on_models import calls_and_bytes, layers_of, rows_of

NUM_HIDDEN = 32  # so that two masks are equal by chance once in four billion
ROWS_OF_A_RANK = 2
OTHER_STATE = 1000  # how far the random states of two runs are apart before they are seeded

Masks = list[list[Tensor]]
"""Of each rank, its masks in order."""


class Dropping(nn.Module):
    """Two layers with dropout between them, which keeps its masks.

    Attributes:
        masks: Zero where a number was dropped, else two, in order; or what to use instead.
    """

    def __init__(self, width: int) -> None:
        """Make the layers, with the same weights every time."""
        super().__init__()
        self.inner, self.outer = layers_of([width, NUM_HIDDEN, 2], width)
        self.masks: list[Tensor] = []

    def forward(self, rows: Tensor) -> Tensor:
        """From (rows, width) to (rows, 2)."""
        hidden = self.inner(rows)
        mask = F.dropout(torch.ones_like(hidden), 0.5, self.training)
        self.masks.append(mask)
        out: Tensor = self.outer(hidden * mask)
        return out


def batches_of(case: Case) -> list[Tensor]:
    """The batches that all ranks share, with as many rows for each rank."""
    num_rows = ROWS_OF_A_RANK * case["num_ranks"]
    return [rows_of(num_rows, case["width"], n) for n in range(case["num_steps"])]


@errors_as_data
def observe(answer: Any, case: Case) -> dict[str, Any]:
    """Masks in a run, in a repetition and with another seed; gradients; what each rank did."""
    seed = case["seed"]
    first = _run(answer, case, seed, 0)
    again = _run(_off_the_clock(answer), case, seed, OTHER_STATE)
    other = _run(_off_the_clock(answer), case, seed + OTHER_STATE, 0)
    return first | {"masks_again": again["masks"], "masks_of_other": other["masks"]}


def _run(answer: Any, case: Case, seed: int, state: int) -> dict[str, Any]:
    """One run, on a cluster whose random numbers were in some state before."""
    ranks = range(case["num_ranks"])
    models, batches = [Dropping(case["width"]) for _ in ranks], [batches_of(case) for _ in ranks]
    cluster = replace(cluster_of(len(ranks)), seed=state)
    with undisturbed():
        recorded = record_on_cluster(
            cluster, lambda comm: answer(comm, models[comm.rank], batches[comm.rank], seed)
        )
    return {
        "masks": [each.masks for each in models],
        "gradients": [gradients_of(list(each.parameters())) for each in models],
        "logs": recorded.logs,
    }


def _off_the_clock(answer: Any) -> Any:
    """The answer, whose operations advance no clock: for runs of which only the masks count."""

    def unclocked(*args: Any) -> None:
        with torch._C._DisableTorchDispatch():
            answer(*args)

    return unclocked


def summarise(case: Case, observed: Plain, right: Plain) -> dict[str, int]:
    """Masks against each other, and gradients against those under these very masks."""
    masks: Masks = observed["masks"]
    num_other = sum(each.shape != (ROWS_OF_A_RANK, NUM_HIDDEN) for rank in masks for each in rank)
    numbers = {
        "masks": _num_masks(masks, case["num_steps"]),
        "other_rows": num_other,
        "kept_all": sum(bool((each != 0).all()) for rank in masks for each in rank),
    }
    if numbers != {name: right[name] for name in numbers}:  # then there is nothing to compare
        return {**right["numbers"], **numbers}
    return (
        numbers
        | _equal_masks(masks)
        | {
            "shifted": _num_shifted(masks),
            "unrepeatable": sum(map(_differ, masks, observed["masks_again"])),
            "seedless": sum(not _differ(*pair) for pair in _pairs(masks, observed)),
            "wrong_ranks": _num_wrong_ranks(case, observed),
        }
        | calls_and_bytes(observed, case["num_ranks"])
    )


def _num_masks(masks: Masks, num_steps: int) -> int:
    """Masks of all ranks; where there are as many as there should be, no rank's for another."""
    num_made = sum(map(len, masks))
    if num_made != len(masks) * num_steps:
        return num_made
    return sum(min(len(rank), num_steps) for rank in masks)


def _pairs(masks: Masks, observed: Plain) -> list[tuple[list[Tensor], list[Tensor]]]:
    return list(zip(masks, observed["masks_of_other"], strict=True))


def _differ(some: list[Tensor], others: list[Tensor]) -> bool:
    """Whether a rank's masks are others; for a rank without any they are not."""
    return len(some) != len(others) or not all(map(torch.equal, some, others))


def _equal_masks(masks: Masks) -> dict[str, int]:
    """Masks that another one equals: in the same step, on the same rank, or elsewhere."""
    places = [(rank, step, m) for rank, each in enumerate(masks) for step, m in enumerate(each)]
    found = {"on_other_rank": 0, "in_other_step": 0, "elsewhere": 0}
    for number, (rank, step, mask) in enumerate(places):
        for other_rank, other_step, other in places[:number]:
            if torch.equal(mask, other):
                is_in_step, is_on_rank = step == other_step, rank == other_rank
                name = "on_other_rank" if is_in_step else "elsewhere"
                found["in_other_step" if is_on_rank else name] += 1
    return found


def _num_shifted(masks: Masks) -> int:
    """Ranks whose first mask begins inside another rank's masks, if not with one of its rows."""
    streams = [torch.cat([each.flatten() for each in rank]) for rank in masks]
    return sum(
        any(_is_inside(stream[:NUM_HIDDEN], other) for other in streams if other is not stream)
        for stream in streams
    )


def _is_inside(piece: Tensor, stream: Tensor) -> bool:
    """Whether numbers stand in a stream somewhere, but not where a row begins."""
    windows = stream.unfold(0, len(piece), 1)
    found = (windows == piece).all(1)
    found[:: len(piece)] = False
    return bool(found.any())


def _num_wrong_ranks(case: Case, observed: Plain) -> int:
    """Ranks without the sum of the gradients that all ranks have under their masks."""
    model = Dropping(case["width"])
    batches, masks = batches_of(case), zip(*observed["masks"], strict=True)
    mask = torch.cat([each for of_step in masks for each in of_step])
    hidden = model.inner(torch.cat(batches)) * mask
    (model.outer(hidden).square().sum() / len(batches[0])).backward()
    whole = gradients_of(list(model.parameters()))
    return sum(num_different(each, whole) > 0 for each in observed["gradients"])
