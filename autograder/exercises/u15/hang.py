"""Check of a backward pass in which every rank makes all calls, with rows or without."""

import random
from typing import Any

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.exercises.model_answers import Edit, edited
from autograder.exercises.u15.shared.gradients import (
    LABELS,
    NOT_REACHED,
    TOO_SHORT,
    TRAINERS,
    on_every_rank,
)
from autograder.observing.u15 import hang

# Ranks and rows: none without rows, fewer rows than ranks, and as many whose chunks do not reach.
SIZES = ((2, 4), (4, 2), (4, 5), (3, 4), (2, 1), (4, 8), (1, 3), (5, 6), (3, 1), (4, 6))
FIELDS = ("num_ranks", "num_rows", "width", "has_gradients")


def share_cases(seed: int) -> list[Case]:
    """Ranks without rows and all with some; gradients from before or none."""
    rng = random.Random(seed)
    cases = [(4, 5, 2, False)]
    for has_gradients in (False, True):
        cases += [(*sizes, rng.randint(2, 9), has_gradients) for sizes in SIZES]
    return [dict(zip(FIELDS, each, strict=True)) for each in cases]


def measured(**case: Any) -> dict[str, Any]:
    """The gradient of all rows by one rank, and a call for each parameter."""
    model = hang.model_of(case, 0)
    gradients = [each.grad for each in model.parameters()]
    for rank in range(1, case["num_ranks"]):
        others = [each.grad for each in hang.model_of(case, rank).parameters()]
        gradients = [
            None if mine is None or other is None else mine + other
            for mine, other in zip(gradients, others, strict=True)
        ]
    for each, before in zip(model.parameters(), gradients, strict=True):
        each.grad = before
    batch = hang.batch_of(case)
    (model(batch).square().sum() / len(batch)).backward()
    whole = [each.grad for each in model.parameters()]
    return on_every_rank(whole, [each.nbytes for each in model.parameters()], changed_batches=0)


SHARE = "share = rows[part * comm.rank :][:part]"
BACKWARD = "(model(share).square().sum() / len(rows)).backward()"
CALL, PER_RANK = "comm.all_reduce(each.grad)", "-(-len(rows) // comm.size)"
LOST_ROWS = (
    "Nobody hangs, but some rows are in no rank's share. If the share is rounded down, who gets "
    "the rows left over?"
)
WEIGHED = (
    "You take the mean over a rank's own rows, so ranks count the same and rows do not. By what "
    "should a rank divide the sum over its rows?"
)
TWICE = "A rank without rows takes rows that another rank has too. How often do those rows count?"
EDITS = (
    Edit(WEIGHED, {BACKWARD: "(model(share).square().mean() / comm.size).backward()"}),
    Edit(WEIGHED, {BACKWARD: "(model(share).square().mean() / len(rows)).backward()"}),
    Edit(WEIGHED, {BACKWARD: "model(share).square().mean().backward()"}),
    Edit(WEIGHED, {BACKWARD: "(model(share).square().sum(1).mean() / comm.size).backward()"}),
    Edit(TWICE, {SHARE: f"{SHARE}\n    share = share if len(share) else rows[-1:]"}),
    Edit(TWICE, {SHARE: f"{SHARE}\n    share = share if len(share) else rows[:1]"}),
    Edit(TWICE, {SHARE: f"{SHARE}\n    share = share if len(share) else rows"}),
    Edit(
        "A rank without rows computes a row of zeros. What do the biases make of it, and what does "
        "it add to the loss?",
        {SHARE: f"{SHARE}\n    share = share if len(share) else torch.zeros_like(rows[:1])"},
    ),
    Edit(
        "You clear the gradients that this rank had accumulated. Whose job is that?",
        {BACKWARD: f"model.zero_grad()\n    {BACKWARD}"},
    ),
    Edit(
        "With fewer rows than ranks, nobody sends anything. The hang is gone, but how does a rank "
        "learn from the others' rows?",
        {BACKWARD: f"{BACKWARD}\n    if len(rows) < comm.size:\n        return"},
        shows=("calls",),
    ),
    Edit(LOST_ROWS, {PER_RANK: "len(rows) // comm.size"}, shows=("length",)),
    Edit(LOST_ROWS, {PER_RANK: "max(1, len(rows) // comm.size)"}, shows=("length",)),
    Edit(
        "Each rank divides by its own number of rows. How many rows does the whole batch's loss "
        "divide by?",
        {BACKWARD: BACKWARD.replace("len(rows)", "max(1, len(share))")},
        shows=("length",),
    ),
    Edit(
        "A rank without rows throws away the gradients that it had accumulated. What does a "
        "backward pass over no rows add to them?",
        {
            BACKWARD: f"{BACKWARD}\n    if len(share) == 0:\n"
            "        for weight in model.parameters():\n"
            "            weight.grad = torch.zeros_like(weight)"
        },
        shows=("length",),
    ),
    Edit(
        "A rank without rows sends zeros, and the sum that comes back is not in its `grad`. Which "
        "tensor does the call write into there?",
        {
            BACKWARD: f"if len(share):\n        {BACKWARD}",
            CALL: "comm.all_reduce(torch.zeros_like(each) if each.grad is None else each.grad)",
        },
        shows=("missing",),
    ),
    Edit(
        "You divide by more rows than there are, as if every rank had a full share. How many rows "
        "does the batch have?",
        {BACKWARD: BACKWARD.replace("len(rows)", "(part * comm.size)")},
        shows=("length",),
    ),
    Edit(TOO_SHORT, {CALL: f"{CALL}\n        each.grad /= comm.size"}, shows=("length",)),
    Edit(  # one row is in rank 0's share alone, whose gradient is right
        NOT_REACHED,
        {CALL: "comm.all_reduce(each.grad.clone())"},
        shows=("length", "length_on_last"),
    ),
    Edit(
        "Every rank computes all rows. How often does each row count in the sum over ranks?",
        {SHARE: "share = rows"},
        shows=("length",),
    ),
    Edit(
        "The gradients are right, but you make more calls than there are parameters. What do the "
        "ranks tell each other that each could work out alone?",
        {BACKWARD: f"comm.all_reduce(torch.tensor(len(share)))\n    {BACKWARD}"},
        shows=("calls",),
    ),
)

CHECK = Check(
    cases=share_cases,
    observe=hang.observe,
    judge=Behaviour(
        measured,
        *edited("u15-hang", EDITS, observe=hang.observe),
        summarise=hang.summarise,
        questions={
            "calls": "How many calls does each rank make, and how many parameters are there?",
            "missing": "A gradient is None on a rank without rows. What could fill it there?",
            "length": "Is every row in exactly one rank's share, and what is its loss divided by?",
        },
        labels=LABELS | {"changed_batches": "ranks on which the batch has changed"},
    ),
    answers=TRAINERS,
)
