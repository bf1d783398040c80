"""Check of f and g: what they do to a tensor, and what to its gradient."""

import random
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.exercises.model_answers import Edit, edited
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


COPIED, SUMMED = "return x.view_as(x)", "comm.all_reduce(summed)"
TOTAL, OF_F = "gradient.clone(memory_format=torch.contiguous_format)", "comm.all_reduce(total)"
OF_G, BOTH = "return gradient", "return Copy.apply, Sum.apply"
SUM = "x.clone(memory_format=torch.contiguous_format)"


EDITS = (
    Edit(
        "Each rank ends with the gradient of its own use of x. All ranks use the same x: who adds "
        "up what they know of it?",
        {OF_F: "pass"},
        points=1.0,
    ),
    Edit(
        "The gradient of what g sums is too large, and there is a call too many in backward. What "
        "is the derivative of a sum by one of its terms?",
        {
            OF_G: "both = gradient.contiguous().clone()\n            comm.all_reduce(both)\n"
            "            return both"
        },
        points=1.0,
    ),
    Edit(
        "f sums, and g copies. Where do ranks hold parts of a sum: where a block begins, or where "
        "it ends?",
        {BOTH: "return Sum.apply, Copy.apply"},
    ),
    Edit(
        "The sum is written into the gradient that came in, which somebody else may hold as well. "
        "What could hold it in its place?",
        {TOTAL: "gradient.contiguous()"},
        points=2.0,
        shows=("changed",),
    ),
    Edit(
        "The sum is written into x, which others still need. What could hold it in its place?",
        {SUM: "x.contiguous()"},
        points=2.0,
        shows=("changed",),
    ),
    Edit(
        "The sum over ranks has become a mean. Is each rank's gradient a share already, or an "
        "opinion on the whole?",
        {OF_F: "comm.all_reduce(total)\n            total /= comm.size"},
        points=1.0,
    ),
    Edit(
        "What g gives is a mean over ranks. Each rank holds a part of a sum: what is left to "
        "divide?",
        {SUMMED: "comm.all_reduce(summed)\n            summed /= comm.size"},
        points=1.0,
    ),
    Edit(
        "f sums in forward as well. All ranks hold the same x: what would a sum of equal tensors "
        "be?",
        {
            COPIED: "summed = x.contiguous().clone()\n            comm.all_reduce(summed)\n"
            "            return summed"
        },
        points=1.0,
    ),
    Edit(
        "g gives each rank its own part, and no call is made in forward. Which sum does the next "
        "block need?",
        {SUMMED: "pass"},
        points=1.0,
    ),
)

CHECK = Check(
    cases=f_and_g_cases,
    observe=f_and_g.observe,
    judge=Behaviour(
        measured,
        *edited("u11-f-and-g", EDITS, f_and_g.observe),
        scenarios=SCENARIOS,
        relative_tolerance=1e-9,
        labels=f_and_g.LABELS,
        summarise=f_and_g.summarise,
        questions={
            STRIDED: "A call sends memory as it lies, and `clone()` keeps the order of a "
            "transposed tensor. What does not?",
            "changed": "Which of your calls writes into a tensor that it was given, and who else "
            "holds that tensor?",
            "forward_calls": "In forward f copies and g sums. Which of the two needs the others?",
            "backward_calls": "What does one rank know of the gradient of x, and what of the "
            "gradient of its part of a sum?",
            "wrong_results": "What should every rank hold after f, and what after g?",
            "wrong_gradients": "Write the result as a formula of all ranks' inputs. What is its "
            "derivative by the x of one rank?",
        },
    ),
    fallback="course_utils.reference.tensor_parallel.f_and_g",
    answers=(
        "course_utils.reference.tensor_parallel.f_and_g",
        "course_utils.reference.tensor_parallel.gather_and_scatter",
    ),
)
