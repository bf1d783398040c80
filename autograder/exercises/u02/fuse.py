"""Check of attention weights made with two operations: right results, few bytes moved."""

import random
from typing import Any

import numpy as np
import torch

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.exercises.model_answers import mistakes_of, questions_of
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


CHECK = Check(
    cases=score_cases,
    observe=fuse.observe,
    judge=Behaviour(
        measured,
        *mistakes_of("u02-fuse", observe=fuse.observe),
        summarise=fuse.summarise,
        questions=questions_of("u02-fuse"),
        labels={
            "wrong_results": "The weights are wrong.",
            "changed_inputs": "Scores or bias have changed.",
            "times_moved": "the bytes moved, in multiples of those of the scores, at most",
        },
    ),
)
