"""Check of gradients that are summed in fp32, and never all alive at once in bf16."""

import random
from typing import Any

import torch

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.exercises.model_answers import mistakes_of, questions_of
from autograder.observing.u08 import buffer
from autograder.observing.u08.buffer import SUMMED, inputs_of, loss_of, model_of

NUM_LAYERS = 12


def buffer_cases(seed: int) -> list[Case]:
    """One micro-batch and many; also with a frozen layer, or a weight that two layers share."""
    rng = random.Random(seed)
    cases = [_case(16, 2, "plain")]
    for num_micro_batches in (2, 1, 3, 6):
        for kind in ("plain", "frozen", "shared", "frozen", "shared"):
            cases.append(_case(rng.randint(8, 16), num_micro_batches, kind))
    return cases


def _case(width: int, num_micro_batches: int, kind: str) -> Case:
    return {
        "num_layers": NUM_LAYERS,
        "width": width,
        "num_micro_batches": num_micro_batches,
        "kind": kind,
    }


def measured(**case: Any) -> dict[str, Any]:
    """A buffer for each trainable weight, with the sum in float64, and no gradient left."""
    model = model_of(case)
    weights = [each for each in model.parameters() if each.requires_grad]
    sums = [torch.zeros_like(each, dtype=torch.float64) for each in weights]
    for x in inputs_of(case):
        gradients = torch.autograd.grad(loss_of(model, x), weights)
        sums = [total + each for total, each in zip(sums, gradients, strict=True)]
    return {
        "buffers": len(weights),
        "buffers_not_fp32": 0,
        "gradients_left": 0,
        "wrong_sums": 0,
        "length": torch.cat([each.flatten() for each in sums]).norm().item(),
        "gradients_at_once": 0,
        "sums": [each.float() for each in sums],
    }


CHECK = Check(
    cases=buffer_cases,
    observe=buffer.observe,
    judge=Behaviour(
        measured,
        *mistakes_of("u08-buffer", observe=buffer.observe),
        summarise=buffer.summarise,
        questions=questions_of("u08-buffer"),
        labels={
            "buffers_not_fp32": "buffers of another precision than fp32",
            "gradients_left": "parameters with a gradient left in grad",
            "wrong_sums": "buffers that do not hold the sum of their gradients",
            "length": "the norm of all buffers together",
            "gradients_at_once": "passes with all bf16 gradients in memory at once",
        },
        relative_tolerance=SUMMED,
    ),
    fallback="course_utils.reference.accumulation.sum_in_fp32",
    answers=(
        "course_utils.reference.accumulation.sum_in_fp32",
        "course_utils.reference.accumulation._move_gradient_to",
    ),
)
