"""Check of a training whose ranks begin with the weights and buffers of one of them."""

import copy
import random
from typing import Any

import torch

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.exercises.model_answers import mistakes_of, questions_of
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


CHECK = Check(
    cases=training_cases,
    observe=apart.observe,
    judge=Behaviour(
        measured,
        *mistakes_of("u15-apart", observe=apart.observe),
        summarise=apart.summarise,
        questions=questions_of("u15-apart"),
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
