"""Check of ranks that begin with equal weights and continue with different random numbers."""

import random
from typing import Any

import torch

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.exercises.model_answers import Edit, edited
from autograder.observing.replay import LABELS
from autograder.observing.u09 import dropout
from autograder.observing.u09.dropout import model_of

KINDS = ("flat", "nested", "shared", "counting", "shared")


def begin_cases(seed: int) -> list[Case]:
    """Layers in a row, nested, or sharing a weight, on two to four ranks.

    All have a buffer of fractions; some, where it is not saved, have a counter as well, and some
    a frozen layer.
    """
    rng = random.Random(seed)
    cases = [_case([2, 3, 4], 2, 7, "flat")]
    for most_ranks in (2, 3, 2, 4):
        for kind, num_ranks in zip(KINDS, (2, 2, most_ranks, 2, 2), strict=True):
            width = rng.randint(2, 4)
            widths = [width] * 3 if kind == "shared" else [width, rng.randint(2, 4), width]
            cases.append(_case(widths, num_ranks, rng.randint(1, 10**6), kind))
    return cases


def _case(widths: list[int], num_ranks: int, seed: int, kind: str) -> Case:
    return {"widths": widths, "num_ranks": num_ranks, "seed": seed, "kind": kind}


def measured(**case: Any) -> dict[str, Any]:
    """Rank 0's weights everywhere, sent once, and another seed for each rank."""
    model = model_of(case, rank=0)
    weights, buffers = list(model.parameters()), list(model.buffers())
    return {
        "wrong_weights": 0,
        "wrong_buffers": 0,
        "otherwise_frozen": 0,
        "messages": 0,
        "other_calls": 0,
        "bytes": sum(each.nbytes for each in weights + buffers),
        "equal_numbers": 0,
        "wrong_numbers": 0,
        "forged_calls": 0,
        "weights": weights,
        "wants_gradient": [each.requires_grad for each in weights],
        "buffers": buffers,
        "numbers": [_first_number(case["seed"] + rank) for rank in range(case["num_ranks"])],
    }


def _first_number(seed: int) -> float:
    return torch.rand((), generator=torch.Generator().manual_seed(seed)).item()


CALL, ALL = "comm.broadcast(tensor, source=0)", "[*model.parameters(), *model.buffers()]"
SEED = "torch.manual_seed(seed + comm.rank)"

SUMMED = (
    "No rank has the weights of rank 0, not even rank 0 itself. What does an all-reduce make of "
    "weights?"
)
NOT_SENT = (
    "Even rank 0 has other weights now, and no weight was sent. Which rank's weights, as they came "
    "in, does the exercise want on all?"
)
OTHER_SEEDS = (
    "Random numbers differ from rank to rank, and are not those of the exercise's seeds. Which "
    "seed belongs to rank 1, and is anything drawn after it is set?"
)
EDITS = (
    Edit(
        "Every rank still has the weights that it began with. Which call gives those of one rank "
        "to all?",
        {CALL: "pass"},
        shows=("wrong_weights",),
    ),
    Edit(SUMMED, {CALL: "comm.all_reduce(tensor)"}),
    Edit(SUMMED, {CALL: "comm.all_reduce(tensor)", ALL: "model.parameters()"}),
    Edit(NOT_SENT, {CALL: "tensor.fill_(1)"}, shows=("wrong_weights", "bytes")),
    Edit(
        NOT_SENT,
        {CALL: f"tensor.fill_(1) if isinstance(tensor, nn.Parameter) else {CALL}"},
        shows=("wrong_weights", "bytes"),
    ),
    Edit(
        "A buffer of whole numbers stays as it was. Which buffer of BatchNorm counts, and which of "
        "your lines leaves it out?",
        {"*model.buffers()": "*(b for b in model.buffers() if b.is_floating_point())"},
    ),
    Edit(
        "A buffer's whole numbers are nearly those of rank 0. Which of 64 bits does a float64 "
        "keep, and what does joining tensors of two types make of them?",
        {
            CALL: "numbers = tensor.double()\n            comm.broadcast(numbers, source=0)\n"
            "            tensor.copy_(numbers)"
        },
        shows=("wrong_buffers",),
    ),
    Edit(
        "A buffer that is not saved with the model stays as it was. Which of a model's tensors "
        "does its state dict leave out?",
        {ALL: "{each.data_ptr(): each for each in model.state_dict().values()}.values()"},
    ),
    Edit(
        "Frozen weights stay as they were. Does a weight that is not trained play no part in the "
        "forward pass?",
        {"*model.parameters()": "*(p for p in model.parameters() if p.requires_grad)"},
        shows=("wrong_weights",),
    ),
    Edit(
        "Weights are equal, buffers are not. What of a model's state is no parameter?",
        {ALL: "model.parameters()"},
        shows=("wrong_buffers",),
    ),
    Edit(
        "Weights that were frozen want a gradient now. What did you set on all of them, and what "
        "was it before?",
        {
            CALL: "comm.broadcast(tensor.requires_grad_(False), source=0)\n"
            "            tensor.requires_grad_(isinstance(tensor, nn.Parameter))"
        },
        shows=("otherwise_frozen",),
    ),
    Edit(
        "The weights want no gradient any more. What did you change so that they could be sent?",
        {CALL: "comm.broadcast(tensor.requires_grad_(False), source=0)"},
        shows=("otherwise_frozen",),
    ),
    Edit(
        "Rank 0 sends every tensor to each of the others in a message of its own. Which call "
        "brings it to all of them at once?",
        {
            CALL: "if comm.rank > 0:\n                comm.receive(tensor, 0)\n"
            "            for rank in range(1, comm.size) if comm.rank == 0 else ():\n"
            "                comm.send(tensor, rank)"
        },
        shows=("messages",),
    ),
    Edit(
        "Weights and buffers are right, and come by a call that takes something from every rank. "
        "Which call needs the numbers of one rank only?",
        {CALL: "comm.all_reduce(tensor.mul_(comm.rank == 0))"},
        shows=("other_calls",),
    ),
    Edit(
        "A weight that two layers share is sent twice, and a buffer that is not saved never. "
        "Which lists of a model's tensors name each one once?",
        {ALL: "model.state_dict().values()"},
    ),
    Edit(
        "What lies in a module inside another one is sent with both. Which modules does "
        "parameters() of the whole model look into?",
        {ALL: "[t for m in model.modules() for t in (*m.parameters(), *m.buffers())]"},
    ),
    Edit(
        "Weights are sent twice. Which tensors do two of your loops share?",
        {ALL: "[*model.parameters(), *model.buffers(), *model.parameters()]"},
    ),
    Edit(
        "All ranks draw the same random numbers, and drop the same units. What could their seeds "
        "differ by?",
        {SEED: "torch.manual_seed(seed)"},
        shows=("equal_numbers",),
    ),
    Edit(
        "Rank 0 draws the numbers that it should, the others do not. By how much do the seeds of "
        "two neighbours differ in the exercise's text, and by how much do yours?",
        {SEED: "torch.manual_seed(seed * (comm.rank + 1))"},
    ),
    *(
        Edit(OTHER_SEEDS, {SEED: other})
        for other in ("pass", "torch.manual_seed(seed + comm.rank + 1)", f"{SEED}; torch.rand(1)")
    ),
)

CHECK = Check(
    cases=begin_cases,
    observe=dropout.observe,
    judge=Behaviour(
        measured,
        *edited("u09-dropout", EDITS, observe=dropout.observe),
        summarise=dropout.summarise,
        labels=LABELS
        | {
            "wrong_weights": "weights that are not rank 0's, on all ranks",
            "wrong_buffers": "buffers that are not rank 0's, on all ranks",
            "otherwise_frozen": "ranks where requires_grad has changed",
            "messages": "messages from one rank to another",
            "other_calls": "There are calls to all ranks that are not a broadcast.",
            "bytes": "bytes that are sent",
            "equal_numbers": "ranks with the random numbers of another",
            "wrong_numbers": "ranks whose random numbers are not those of seed + rank",
        },
    ),
    answers=("course_utils.reference.bucketing.start_equal",),
)
