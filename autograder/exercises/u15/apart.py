"""Check of a training whose ranks begin with the weights and buffers of one of them."""

import copy
import random
from typing import Any

import torch

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.exercises.model_answers import Edit, edited
from autograder.exercises.u15.shared.gradients import LABELS, TRAINERS
from autograder.observing.u15 import apart
from autograder.observing.u15.apart import LEARNING_RATE

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
    model = copy.deepcopy(apart.model_of(case, 0))
    weights = list(model.parameters())
    for batch in apart.batches_of(case):
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
    "No rank sends its weights before the first step, and gradients alone make no weights equal. "
    "Which call gives all ranks one rank's weights?"
)
IN_STEP = BEGIN.replace("\n", "\n        ")
FLAT = "nn.utils.parameters_to_vector(tensors).detach()"
EDITS = (
    Edit(
        "Ranks become equal with the first batch, and without a batch they never do. Where does "
        "the start of a training belong?",
        {
            BEGIN: "pass",
            STEPS: f"{STEPS}\n        if batch is batches[0]:\n            {IN_STEP}",
        },
    ),
    Edit(
        "You send a gradient that all ranks already have. Which of your calls can go?",
        {REDUCE: f"{REDUCE}\n            comm.broadcast(each.grad, source=0)"},
    ),
    Edit(
        "You send a gradient that all ranks already have. Which of your calls can go?",
        {
            BEGIN: "pass",
            REDUCE: f"{REDUCE}\n            comm.broadcast(each.grad, source=0)",
        },
    ),
    Edit(
        "You make ranks equal after a step, when they have already added up gradients of "
        "different models. When must they be equal for the first time?",
        {
            BEGIN: "pass",
            NONE: f"{NONE}\n            comm.broadcast(each.detach(), source=0)",
        },
    ),
    Edit(
        "You pack all tensors into one call. How many calls does the exercise ask for?",
        {
            BEGIN: f"tensors = {ALL}\n    flat = {FLAT}\n    comm.broadcast(flat, source=0)\n"
            "    nn.utils.vector_to_parameters(flat, tensors)"
        },
    ),
    Edit(
        "Your call fills a copy of each weight, and buffers are not sent at all. Which tensors "
        "make up the model, and what changes if you write into a copy?",
        {ALL: "model.parameters()", "tensor.detach()": "tensor.detach().clone()"},
    ),
    Edit(NEVER, {CALL: "pass"}, shows=("calls",)),
    Edit(NEVER, {CALL: "torch.manual_seed(0)"}, shows=("calls",)),
    Edit(
        "Ranks still start apart: what your call receives is thrown away. Is your tensor the "
        "weight, or a copy of it?",
        {CALL: "comm.broadcast(tensor.detach().clone(), source=0)"},
        shows=("apart",),
    ),
    Edit(
        "Ranks get equal weights and keep different buffers. Which of a model's tensors are not "
        "parameters?",
        {ALL: "model.parameters()"},
        shows=("calls",),
    ),
    Edit(
        "Buffers become equal after the last step, so each rank took its steps with its own. Which "
        "tensors does the first forward pass read?",
        {
            ALL: "model.parameters()",
            NONE: f"{NONE}\n    for tensor in model.buffers():\n        {CALL}",
        },
    ),
    Edit(
        "Ranks agree, but start from the mean of their weights. Whose weights does the exercise "
        "ask for?",
        {CALL: "comm.all_reduce(tensor.detach())\n        tensor.detach().div_(comm.size)"},
        shows=("wrong_buffers", "distance"),
    ),
    Edit(
        "Ranks agree, but start from the sum of their weights. Which call gives one rank's tensor "
        "to all?",
        {CALL: "comm.all_reduce(tensor.detach())"},
        shows=("wrong_buffers", "distance"),
    ),
    Edit(
        "Ranks agree, but start from another rank's weights. Whose does the exercise ask for?",
        {"source=0": "source=comm.size - 1"},
        shows=("wrong_buffers", "distance"),
    ),
    Edit(
        "You make ranks equal after a step, when they have already added up gradients of "
        "different models. When must they be equal for the first time?",
        {BEGIN: "pass", NONE: f"{NONE}\n    {BEGIN}"},
        shows=("wrong_weights", "distance"),
    ),
    Edit(
        "You send the weights again in every step. If ranks start equal and take equal steps, "
        "what could make them differ?",
        {STEPS: f"{STEPS}\n        " + BEGIN.replace("\n", "\n    ")},
        shows=("calls",),
    ),
    Edit(
        "You make ranks equal in each step, so without a step they never are. How often is "
        "enough, and when?",
        {BEGIN: "pass", STEPS: f"{STEPS}\n        " + BEGIN.replace("\n", "\n    ")},
    ),
    Edit(
        "All ranks learn from rank 0's rows alone. Which call adds up?",
        {REDUCE: "comm.broadcast(each.grad, source=0)"},
        shows=("wrong_weights", "distance"),
    ),
    Edit(
        "Ranks start equal and drift apart: each follows its own gradient. What must be summed?",
        {REDUCE: "pass"},
        shows=("calls",),
    ),
    Edit(
        "Steps are too small by a factor of the number of ranks. A rank's loss is already its "
        "share of the batch's: what is left to divide?",
        {REDUCE: f"{REDUCE}\n            each.grad /= comm.size"},
        shows=("wrong_weights", "distance"),
    ),
)

CHECK = Check(
    cases=training_cases,
    observe=apart.observe,
    judge=Behaviour(
        measured,
        *edited("u15-apart", EDITS, observe=apart.observe),
        summarise=apart.summarise,
        questions={
            "apart": "Ranks end with different weights. Were they equal at the start?",
            "wrong_buffers": "Which of a model's tensors are not parameters, and whose should "
            "all ranks have?",
            "wrong_weights": "Ranks agree, but on other weights than one rank would reach. Where "
            "do they start, and which steps do they take?",
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
