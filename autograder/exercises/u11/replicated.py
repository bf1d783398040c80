"""Check of the gradients that sequence parallelism leaves to be summed."""

import random
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.exercises.model_answers import mistakes_of, questions_of
from autograder.observing.observation import length_of
from autograder.observing.u11 import replicated
from autograder.observing.u11.replicated import WHOLE, parameters_of

NOBODY = ""


def replicated_cases(seed: int) -> list[Case]:
    """With biases and without, on one rank to four; sometimes a weight has no gradient."""
    rng = random.Random(seed)
    cases: list[Case] = [_case(2, 4, False, NOBODY)]
    for number in range(20):
        without = (NOBODY, NOBODY, "norm2", "q", NOBODY)[number % 5]
        num_ranks = (2, 3, 4, 1)[number // 2 % 4]
        cases.append(_case(num_ranks, rng.randint(2, 12), bool(number % 2), without))
    return cases


def _case(num_ranks: int, hidden_size: int, has_biases: bool, without_gradient: str) -> Case:
    return {
        "num_ranks": num_ranks,
        "hidden_size": hidden_size,
        "has_biases": has_biases,
        "without_gradient": without_gradient,
    }


def measured(**case: Any) -> dict[str, Any]:
    """Sums of what ranks have of whole weights; all else as it was."""
    ranks = [parameters_of(case, rank) for rank in range(case["num_ranks"])]
    gradients = [{name: each.grad for name, each in rank.items()} for rank in ranks]
    summed = [n for n in WHOLE if n in gradients[0] and gradients[0][n] is not None]
    totals = {name: _sum([each[name] for each in gradients]) for name in summed}
    return {
        "forged_calls": 0,
        "calls": len(summed),
        "bytes": sum(each.nbytes for each in totals.values()),
        "wrong_whole": 0,
        "wrong_parts": 0,
        "norm1_length": length_of([totals["norm1"]]),
        "ranks": [each | totals for each in gradients],
    }


def _sum(gradients: Sequence[Tensor | None]) -> Tensor:
    return torch.stack([each for each in gradients if each is not None]).sum(0)


CHECK = Check(
    cases=replicated_cases,
    observe=replicated.observe,
    judge=Behaviour(
        measured,
        *mistakes_of("u11-replicated", replicated.observe),
        relative_tolerance=1e-9,
        labels=replicated.LABELS,
        summarise=replicated.summarise,
        questions=questions_of("u11-replicated"),
    ),
    fallback="course_utils.reference.tensor_parallel.sum_replicated_gradients",
    answers=("course_utils.reference.tensor_parallel.sum_replicated_gradients",),
)
