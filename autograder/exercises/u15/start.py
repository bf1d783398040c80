"""Check of a training whose ranks begin with the weights and buffers of one of them."""

import copy
import random
from typing import Any

import torch

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.exercises.model_answers import Edit, edited
from autograder.exercises.u15.shared.gradients import LABELS, TRAINERS
from autograder.observing.u09.on_ranks import ROUNDING
from autograder.observing.u15 import start
from autograder.observing.u15.start import LEARNING_RATE

FIELDS = ("num_ranks", "num_steps", "num_rows", "width")


def training_cases(seed: int) -> list[Case]:
    """No step to three, on two ranks to four; more rows than ranks."""
    rng = random.Random(seed)
    cases = [(2, 2, 4, 2)]
    for num_ranks in (2, 3, 4, 2, 3):
        for num_steps in (1, 2, 3, 0):
            cases.append((num_ranks, num_steps, num_ranks + rng.randint(0, 3), rng.randint(2, 4)))
    return [dict(zip(FIELDS, each, strict=True)) for each in cases]


def measured(**case: Any) -> dict[str, Any]:
    """Plain gradient descent by one rank that begins as rank 0."""
    model = copy.deepcopy(start.model_of(case, 0))
    weights = list(model.parameters())
    for batch in start.batches_of(case):
        gradients = torch.autograd.grad(model(batch).square().sum() / len(batch), weights)
        with torch.no_grad():
            for weight, gradient in zip(weights, gradients, strict=True):
                weight.sub_(LEARNING_RATE * gradient)
    buffers, num_steps = list(model.buffers()), case["num_steps"]
    weight_bytes = sum(each.nbytes for each in weights)
    return {
        "forged_calls": 0,
        "calls": len(buffers) + (1 + num_steps) * len(weights),
        "bytes": sum(each.nbytes for each in buffers) + (1 + num_steps) * weight_bytes,
        "apart": 0,
        "wrong_buffers": 0,
        "wrong_weights": 0,
        "distance": 0.0,
        "weights": [each.detach() for each in weights],
        "buffers": buffers,
    }


CALL = "comm.broadcast(tensor.detach(), source=0)"
ALL = "[*model.parameters(), *model.buffers()]"
BEGIN = f"for tensor in {ALL}:\n        {CALL}"
STEPS, REDUCE, NONE = (
    "for batch in batches:",
    "comm.all_reduce(each.grad)",
    "each.grad = None",
)
NEVER = (
    "Ranks take equal steps from different places, and stay as far apart as they were. Which call "
    "gives all of them the weights of one?"
)
EDITS = (
    Edit(NEVER, {CALL: "pass"}, shows=("calls",)),
    Edit(NEVER, {CALL: "torch.manual_seed(0)"}, shows=("calls",)),
    Edit(
        "What the call fills is thrown away: ranks still begin apart. Is your tensor the weight, "
        "or a copy of it?",
        {CALL: "comm.broadcast(tensor.detach().clone(), source=0)"},
        shows=("apart",),
    ),
    Edit(
        "Weights are equal, and ranks multiply by different buffers. What of a model's state is "
        "no parameter?",
        {ALL: "model.parameters()"},
        shows=("calls",),
    ),
    Edit(
        "Ranks agree, and begin with a mean of their weights. What is the mean of several random "
        "starts, and whose weights are wanted?",
        {CALL: "comm.all_reduce(tensor.detach())\n        tensor.detach().div_(comm.size)"},
        shows=("wrong_buffers", "distance"),
    ),
    Edit(
        "Ranks agree, and begin with the sum of their weights. Which call gives one rank's tensor "
        "to all?",
        {CALL: "comm.all_reduce(tensor.detach())"},
        shows=("wrong_buffers", "distance"),
    ),
    Edit(
        "Ranks agree, and begin as the last of them. Whose weights does the exercise ask for?",
        {"source=0": "source=comm.size - 1"},
        shows=("wrong_buffers", "distance"),
    ),
    Edit(
        "Ranks are made equal in the end, after gradients of different models have been added "
        "up. When do they have to be equal for the first time?",
        {BEGIN: "pass", NONE: f"{NONE}\n    {BEGIN}"},
        shows=("wrong_weights", "distance"),
    ),
    Edit(
        "Weights are sent again in every step. If ranks begin equal and take equal steps, what "
        "could make them differ?",
        {STEPS: f"{STEPS}\n        " + BEGIN.replace("\n", "\n    ")},
        shows=("calls",),
    ),
    Edit(
        "Ranks are made equal at each step, and without a step they never are. How often is "
        "enough, and when?",
        {BEGIN: "pass", STEPS: f"{STEPS}\n        " + BEGIN.replace("\n", "\n    ")},
    ),
    Edit(
        "All ranks learn from rank 0's rows alone. Which call adds up?",
        {REDUCE: "comm.broadcast(each.grad, source=0)"},
        shows=("wrong_weights", "distance"),
    ),
    Edit(
        "Ranks begin equal, and drift apart: each takes steps of its own. What has to be summed?",
        {REDUCE: "pass"},
        shows=("calls",),
    ),
    Edit(
        "Steps are too short by a factor, the number of ranks. A rank's loss is its share of the "
        "batch's: what does your division divide?",
        {REDUCE: f"{REDUCE}\n            each.grad /= comm.size"},
        shows=("distance",),
    ),
)

CHECK = Check(
    cases=training_cases,
    observe=start.observe,
    judge=Behaviour(
        measured,
        *edited("u15-start", EDITS, observe=start.observe),
        summarise=start.summarise,
        relative_tolerance=ROUNDING,
        questions={
            "apart": "Ranks have different weights at the end. Were they equal at the beginning?",
            "wrong_buffers": "Which of a model's tensors are no parameters, and who sends them?",
            "wrong_weights": "Ranks agree, on other weights than one rank would have. Where do "
            "they begin, and which steps do they take?",
            "calls": "What is sent once, what in every step, and what never?",
            "bytes": "What is sent once, what in every step, and what never?",
        },
        labels=LABELS
        | {
            "apart": "ranks whose weights are not rank 0's afterwards",
            "wrong_weights": "ranks without the weights of one rank with all rows",
            "distance": "how far rank 0's weights are off",
            "wrong_buffers": "ranks whose buffers are not those of rank 0",
        },
    ),
    answers=TRAINERS,
)
