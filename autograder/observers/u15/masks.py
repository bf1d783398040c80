"""What is observed of dropout on several ranks: every mask, and whether a run can be repeated."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from autograder.checking.fact import Case, Fact, Plain
from autograder.observers.after_backward import gradients_of
from autograder.observers.comparing import num_different
from autograder.observers.on_ranks import (
    bytes_in_calls,
    calls_made,
    cluster_of,
    most_calls,
    record_on_cluster,
)
from autograder.observers.replay import forged, replay
from autograder.observers.tools import errors_as_data, undisturbed
from autograder.observers.u15.on_models import layers_of, rows_of

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


def facts(case: Case, observed: Plain, right: Plain) -> list[Fact]:
    """Masks against each other, and gradients against those under these very masks.

    Where the number of masks or the size of one is wrong, or one drops nothing, there is nothing to
    compare, and all else counts as right.
    """
    masks: Masks = observed["masks"]
    run, forged_calls = replay(observed["logs"], cluster_of(case["num_ranks"]))
    made = _made(masks, case["num_steps"])
    sent = [
        forged(forged_calls),
        calls_made(most_calls(run), "How often is each gradient summed?"),
        bytes_in_calls(run),
    ]
    are_comparable = all(each.value == right.get(each.name, 0) for each in made)
    if not are_comparable:
        masks = []
        sent = [each._replace(value=right.get(each.name, 0)) for each in sent]
    return [
        *made,
        Fact(
            "unrepeatable",
            sum(map(_differ, masks, observed["masks_again"])),
            "ranks that drop other units in a second run",
            "From which state does a rank's generator start, and do `seed` and the rank alone "
            "decide that state?",
        ),
        Fact(
            "seedless",
            sum(not differ for differ in map(_differ, masks, observed["masks_of_other"])),
            "ranks that drop the same units with another seed",
            "How does `seed` enter the state that a rank's generator starts from, and on which "
            "ranks does another seed give another state?",
        ),
        *_equal_masks(masks),
        Fact(
            "shifted",
            _num_shifted(masks),
            "ranks whose masks are another rank's, shifted by some units",
            "Whose random numbers does a rank draw, only earlier or later?",
        ),
        *sent,
        Fact(
            "wrong_ranks",
            _num_wrong_ranks(case, observed) if are_comparable else 0,
            "ranks without the summed gradients",
            "Is each rank's gradient the sum of all ranks', and of all steps?",
        ),
    ]


def _made(masks: Masks, num_steps: int) -> list[Fact]:
    """How many masks there are, whether they have the right size, and whether each drops any."""
    every = [each for rank in masks for each in rank]
    return [
        Fact(
            "masks",
            _num_masks(masks, num_steps),
            "masks of all ranks and steps",
            "How often does each rank run the model?",
        ),
        Fact(
            "other_rows",
            sum(each.shape != (ROWS_OF_A_RANK, NUM_HIDDEN) for each in every),
            "forward passes with the wrong number of rows",
            "Which rows of a batch does a rank put through the model, and how many are there?",
        ),
        Fact(
            "kept_all",
            sum(bool((each != 0).all()) for each in every),
            "masks that drop nothing",
            "In which mode is the model when a batch goes through it, and which line sets that "
            "mode?",
        ),
    ]


def _num_masks(masks: Masks, num_steps: int) -> int:
    """Masks of all ranks; where there are as many as there should be, no rank's for another."""
    num_made = sum(map(len, masks))
    if num_made != len(masks) * num_steps:
        return num_made
    return sum(min(len(rank), num_steps) for rank in masks)


def _differ(some: list[Tensor], others: list[Tensor]) -> bool:
    """Whether a rank's masks are others; for a rank without any they are not."""
    return len(some) != len(others) or not all(map(torch.equal, some, others))


def _equal_masks(masks: Masks) -> list[Fact]:
    """Masks that another one equals: in the same step, on the same rank, or elsewhere."""
    places = [(rank, step, m) for rank, each in enumerate(masks) for step, m in enumerate(each)]
    on_other_rank = in_other_step = elsewhere = 0
    for number, (rank, step, mask) in enumerate(places):
        for other_rank, other_step, other in places[:number]:
            if torch.equal(mask, other):
                in_other_step += rank == other_rank
                on_other_rank += rank != other_rank and step == other_step
                elsewhere += rank != other_rank and step != other_step
    return [
        Fact(
            "on_other_rank",
            on_other_rank,
            "masks that another rank has in the same step",
            "Which seeds do two ranks have, and are they different?",
        ),
        Fact(
            "in_other_step",
            in_other_step,
            "masks that the rank has in another step",
            "How often do you seed the generator?",
        ),
        Fact(
            "elsewhere",
            elsewhere,
            "masks that another rank has in another step",
            "Which two pairs of rank and step are given the same seed?",
        ),
    ]


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
