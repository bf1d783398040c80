"""Check of f and g: what they do to a tensor, and what to its gradient."""

import random
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.exercises.model_answers import mistakes_of, questions_of
from autograder.observing.observation import length_of
from autograder.observing.u11 import f_and_g
from autograder.observing.u11.f_and_g import (
    PLAIN,
    SCENARIOS,
    SPREAD,
    STRIDED,
    TURNED,
    TWICE,
    tensors_of,
)

KINDS = (PLAIN, TURNED, SPREAD, TWICE)
FIELDS = ("scenario", "kind", "num_ranks", "shape")


def f_and_g_cases(seed: int) -> list[Case]:
    """Every scenario with every kind of tensor, on one rank to four."""
    rng = random.Random(seed)
    cases: list[tuple[Any, ...]] = [("block", PLAIN, 2, [2, 3])]
    for scenario in SCENARIOS:
        for number, kind in enumerate((*KINDS, PLAIN, TURNED, TWICE)):
            num_ranks = (2, 3, 2, 4, 1, 4, 2)[number]
            shape = [rng.randint(2, 4), rng.randint(5, 7)]
            cases.append((scenario, kind, num_ranks, shape))
    return [dict(zip(FIELDS, case, strict=True)) for case in cases]


def measured(**case: Any) -> dict[str, Any]:
    """What one process gets that holds the tensors of all ranks."""
    tensors = [tensors_of(case, rank) for rank in range(case["num_ranks"])]
    results, gradients = zip(*_of_all(case, tensors), strict=True)
    is_f, is_g = case["scenario"] == "f", case["scenario"] == "g"
    return {
        "forged_calls": 0,
        "forward_calls": int(not is_f),
        "backward_calls": int(not is_g),
        "other_calls": 0,
        "call_bytes": tensors[0][0].nbytes,
        "wrong_results": 0,
        "result_length": length_of(results[:1]),
        "wrong_gradients": 0,
        "gradient_length": length_of(gradients[:1]),
        "changed": 0,
        STRIDED: 0,
        "results": list(results),
        "gradients": list(gradients),
    }


def _of_all(case: Case, tensors: Sequence[tuple[Tensor, ...]]) -> list[tuple[Tensor, Tensor]]:
    """Result and gradient of x on each rank."""
    twice = int(case["kind"] == TWICE)
    xs, factors, incoming = (list(each) for each in zip(*tensors, strict=True))
    if case["scenario"] == "f":
        total = torch.stack(incoming).sum(0)
        return [(x + twice * x, total + twice * i) for x, i in zip(xs, incoming, strict=True)]
    if case["scenario"] == "g":
        total = torch.stack(xs).sum(0)
        return [(total + twice * x, i + twice * i) for x, i in zip(xs, incoming, strict=True)]
    parts = torch.stack([torch.sin(xs[0] * each) for each in factors])
    slopes = torch.stack([each * torch.cos(xs[0] * each) for each in factors]).sum(0)
    return [(xs[0] + parts.sum(0), (1 + slopes) * incoming[0])] * len(xs)


CHECK = Check(
    cases=f_and_g_cases,
    observe=f_and_g.observe,
    judge=Behaviour(
        measured,
        *mistakes_of("u11-f-and-g", f_and_g.observe),
        scenarios=SCENARIOS,
        relative_tolerance=1e-9,
        labels=f_and_g.LABELS,
        summarise=f_and_g.summarise,
        questions=questions_of("u11-f-and-g"),
    ),
    fallback="course_utils.reference.tensor_parallel.f_and_g",
    answers=(
        "course_utils.reference.tensor_parallel.f_and_g",
        "course_utils.reference.tensor_parallel.gather_and_scatter",
    ),
)
