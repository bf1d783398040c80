"""Check of the gradient of a mean over all micro-batches of all ranks."""

import random
from typing import Any

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.exercises.model_answers import Edit, edited
from autograder.exercises.u15.shared.gradients import (
    LABELS,
    NOT_REACHED,
    RETURNS_NOTHING,
    TRAINERS,
    on_every_rank,
)
from autograder.observing.u09.after_backward import gradients_of
from autograder.observing.u15 import scale

FIELDS = ("num_ranks", "num_micro_batches", "num_rows", "width")


def mean_cases(seed: int) -> list[Case]:
    """One rank to four, with one micro-batch to four of one row to three."""
    rng = random.Random(seed)
    cases = [(2, 3, 1, 2)]
    for num_ranks in (2, 3, 4, 1):
        for num_micro_batches in (2, 3, 1, 4, 2):
            cases.append((num_ranks, num_micro_batches, rng.randint(1, 3), rng.randint(2, 4)))
    return [dict(zip(FIELDS, each, strict=True)) for each in cases]


def measured(**case: Any) -> dict[str, Any]:
    """The gradient of the mean by one rank with all rows, and a call for each parameter."""
    model = scale.model_of(case)
    every = [scale.micro_batches_of(case, rank) for rank in range(case["num_ranks"])]
    rows = [row for batches in every for batch in batches for row in batch]
    sum(model(row).square().mean() / len(rows) for row in rows).backward()
    gradients = gradients_of(list(model.parameters()))
    return on_every_rank(gradients, [each.nbytes for each in model.parameters()], lost=0)


BACKWARD = "(model(batch).square().mean() / num_parts).backward()"
CALL, BOTH = "comm.all_reduce(each.grad)", "comm.size * len(micro_batches)"
LOOP = f"for each in model.parameters():\n        {CALL}"
JOINED = "flat = torch.cat([each.grad.flatten() for each in model.parameters()])"
TAKEN_APART = """at = 0
    for each in model.parameters():
        each.grad = flat[at : at + each.numel()].view_as(each)
        at += each.numel()"""
TIMES_RANKS = (
    "Too large by a factor of the number of ranks. One of the two divisions was one too many: how "
    "many are left?"
)
EDITS = (
    Edit(
        "You took out the wrong division: two lines still divide by the number of ranks, and none "
        "by the number of micro-batches. Which of the two can go, and what must come back?",
        {BOTH: "comm.size", CALL: f"{CALL}\n        each.grad /= comm.size"},
    ),
    Edit(
        "You divide by the rows of one micro-batch on one rank. How many numbers are in the mean "
        "over all rows and outputs?",
        {"mean() / num_parts": "sum() / len(batch)"},
    ),
    Edit(
        "You divide by the number of rows. How many numbers does each row contribute?",
        {"mean() / num_parts": "sum() / (len(batch) * num_parts)"},
    ),
    Edit(
        "Too small by a factor of the number of ranks: two of your lines divide by it. What is "
        "the sum of these losses over ranks, before the second one?",
        {CALL: f"{CALL}\n        each.grad /= comm.size"},
    ),
    Edit(TIMES_RANKS, {BOTH: "len(micro_batches)"}, shows=("length",)),
    Edit(TIMES_RANKS, {CALL: f"{CALL}\n        each.grad *= comm.size"}, shows=("length",)),
    Edit(
        "Too large by a factor of the number of micro-batches. Backward adds gradients up: what "
        "turns their sum into a mean?",
        {BOTH: "comm.size"},
        shows=("length",),
    ),
    Edit(
        "Too small by a factor of the number of micro-batches: two of your lines divide by it. "
        "Which one is enough?",
        {CALL: f"{CALL}\n        each.grad /= len(micro_batches)"},
        shows=("length",),
    ),
    Edit(
        "You no longer divide by anything. How many means does this add up, over ranks and "
        "micro-batches?",
        {BOTH: "1"},
        shows=("length",),
    ),
    Edit(
        "You sum over ranks after every micro-batch, so earlier sums are summed again. What is in "
        "`grad` when the next micro-batch is done?",
        {
            BACKWARD: f"{BACKWARD}\n        for weight in model.parameters():\n"
            "            comm.all_reduce(weight.grad)",
            f"        {CALL}": "        pass",
        },
        shows=("calls",),
    ),
    Edit(
        "A micro-batch's loss is the sum over its rows and outputs. What mean does the exercise "
        "ask for?",
        {"mean()": "sum()"},
        shows=("length",),
    ),
    Edit(
        "Only the last micro-batch is in the gradient. What does backward do with a `grad` that "
        "is already there?",
        {BACKWARD: f"model.zero_grad()\n        {BACKWARD}"},
        shows=("length",),
    ),
    Edit(
        "Ranks end with different gradients: one of them divides, the others do not. Which line "
        "depends on the rank?",
        {CALL: f"{CALL}\n        if comm.rank == 0:\n            each.grad /= comm.size"},
    ),
    Edit(
        "All ranks have rank 0's gradient; the other ranks' rows are lost. Which call adds up?",
        {CALL: "comm.broadcast(each.grad, source=0)"},
    ),
    Edit(NOT_REACHED, {CALL: "comm.all_reduce(each.grad.clone())"}),
    Edit(
        "You send a copy of all gradients in one call, and its sums never get back into `grad`. "
        "How many calls does the exercise ask for, and which tensors should they write into?",
        {LOOP: f"{JOINED}\n    comm.all_reduce(flat)"},
    ),
    Edit(
        "You pack all gradients into one call. How many calls does the exercise ask for?",
        {LOOP: f"{JOINED}\n    comm.all_reduce(flat)\n    {TAKEN_APART}"},
    ),
)

CHECK = Check(
    cases=mean_cases,
    observe=scale.observe,
    judge=Behaviour(
        measured,
        *edited("u15-scale", EDITS, observe=scale.observe),
        summarise=scale.summarise,
        questions={
            "missing": RETURNS_NOTHING,
            "calls": "How often do ranks have to communicate, for one optimizer step?",
            "length": "By which factor is the gradient too large or too small, and which of your "
            "lines divide?",
            "lost": "The gradient is right, but the list of micro-batches is shorter than before. "
            "Which of your lines takes from it, and who else may still need it?",
        },
        labels=LABELS | {"lost": "micro-batches removed from the list"},
    ),
    answers=TRAINERS,
)
