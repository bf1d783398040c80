"""Check of attention weights made with two operations: right results, few bytes moved."""

import random
from typing import Any

import numpy as np
import torch

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.exercises.model_answers import Edit, edited
from autograder.observing.u02 import fuse
from autograder.observing.u02.fuse import ENOUGH, inputs_of


def score_cases(seed: int) -> list[Case]:
    """With a causal bias and without, scores in one piece or not, recorded or not, any scale.

    Rows are long, so that one number per row weighs little.
    """
    rng = random.Random(seed)
    cases = [_case([1, 2, 16, 64], 0.5)]
    for number in range(20):
        is_transposed = number % 5 == 1
        batch = 2 if is_transposed else rng.randint(1, 2)
        shape = [batch, rng.randint(4, 6), rng.randint(3, 8), rng.randint(40, 90)]
        cases.append(
            _case(
                shape,
                rng.choice((0.125, 0.3, 2.0)),
                is_causal=number % 2 == 0,
                is_transposed=is_transposed,
                is_recording=number % 3 == 0,
            )
        )
    return cases


def _case(shape: list[int], scale: float, **flags: bool) -> Case:
    none = dict.fromkeys(("is_causal", "is_transposed", "is_recording"), False)
    return {"shape": shape, "scale": scale, **none, **flags}


def measured(**case: Any) -> dict[str, Any]:
    """The weights by their definition, in numpy; how little is little enough."""
    scores, bias, scale = inputs_of(case)
    x = scale * scores.numpy() + bias.numpy()
    exponents = np.exp(x - x.max(axis=3, keepdims=True))
    weights = torch.from_numpy(exponents / exponents.sum(axis=3, keepdims=True))
    return {"wrong_results": 0, "changed_inputs": 0, "times_moved": ENOUGH, "weights": weights}


ADD, SOFTMAX = "torch.add(bias, scores, alpha=scale)", "torch.softmax(biased, dim=-1)"
MOVED, RESULTS, CHANGED = ("times_moved",), ("wrong_results",), ("changed_inputs",)
WRITTEN_OUT = "exponents / exponents.sum(-1, keepdim=True)"
EXPONENTS = f"{ADD}\n    exponents = (biased - biased.amax(-1, keepdim=True)).exp()"
IN_PLACE = "(biased - biased.amax(-1, keepdim=True)).exp_()"
TWELVE = (
    "Twelve readings and writings of the scores. An operation in place reads and writes, too. "
    "Which PyTorch function does the last lines in one?"
)
SIX = (
    "Six times: scale and bias are two operations. Which argument of "
    "`torch.add` multiplies one of its inputs on the way?"
)
NUMBERS = (
    "The weights are wrong. Does the scale multiply the scores alone, do the keys of each query "
    "add up to 1, and is the dtype unchanged?"
)
EDITS = (
    Edit(
        TWELVE,
        {ADD: EXPONENTS.replace(ADD, "scores * scale + bias"), SOFTMAX: WRITTEN_OUT},
        shows=MOVED,
    ),
    Edit(
        "The softmax is still four operations. Which PyTorch function does them in one?",
        {ADD: EXPONENTS, SOFTMAX: WRITTEN_OUT},
        shows=MOVED,
    ),
    Edit(
        TWELVE,
        {
            ADD: f"scores * scale\n    biased += bias\n    exponents = {IN_PLACE}",
            SOFTMAX: "exponents.div_(exponents.sum(-1, keepdim=True))",
        },
        shows=MOVED,
    ),
    Edit(
        SIX,
        {ADD: "scores * scale + bias"},
        shows=MOVED,
    ),
    Edit(
        SIX,
        {ADD: "(scores * scale).add_(bias)"},
        shows=MOVED,
    ),
    Edit(
        SIX,
        {ADD: "(scores + bias / scale) * scale"},
        shows=MOVED,
    ),
    Edit(
        "You write into the scores. Who else may still need them?",
        {ADD: "scores.mul_(scale).add_(bias)"},
        shows=CHANGED,
    ),
    Edit(
        SIX,
        {SOFTMAX: "torch.cat([F.softmax(row, -1) for row in biased.split(1, dim=1)], dim=1)"},
        shows=MOVED,
    ),
    Edit(
        NUMBERS,
        {
            ADD: "torch.add(bias.bfloat16(), scores.bfloat16(), alpha=scale)",
            SOFTMAX: f"{SOFTMAX}.to(scores.dtype)",
        },
        shows=RESULTS,
    ),
    Edit(
        NUMBERS,
        {ADD: "torch.add(scores, bias, alpha=scale)"},
        shows=RESULTS,
    ),
    Edit(
        NUMBERS,
        {SOFTMAX: "torch.softmax(biased, dim=-2)"},
        shows=RESULTS,
    ),
)

CHECK = Check(
    cases=score_cases,
    observe=fuse.observe,
    judge=Behaviour(
        measured,
        *edited("u02-fuse", EDITS, observe=fuse.observe),
        summarise=fuse.summarise,
        questions={
            "times_moved": "The weights are right, and more than two operations touch the scores. "
            "Which ones, and which two of them does one PyTorch function do in one?",
            "wrong_results": NUMBERS,
            "changed_inputs": "Which of your operations writes into the tensor that it is called "
            "on?",
        },
        labels={
            "wrong_results": "The weights are wrong.",
            "changed_inputs": "Scores or bias have changed.",
            "times_moved": "the bytes moved, in multiples of those of the scores, at most",
        },
    ),
)
