"""Check of a flat shard: the part of each rank, the whole, and what stays in memory."""

import random
from typing import Any

import torch

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.exercises.model_answers import mistakes_of, questions_of
from autograder.observing import replay
from autograder.observing.u10 import flat

FIELDS = ("num_ranks", "shapes", "dtype")


def flat_cases(seed: int) -> list[Case]:
    """Whole parts and ragged ones, fewer numbers than ranks, one rank; two dtypes."""
    rng = random.Random(seed)
    cases: list[tuple[int, list[list[int]], str]] = [(4, [[3, 4], [3]], "float64")]
    for number in range(10):
        ranks = 2 + number % 4
        rows = [[rng.randint(1, 4), rng.randint(2, 5)] for _ in range(rng.randint(1, 3))]
        rest = ranks * 40 - sum(a * b for a, b in rows)
        cases.append((ranks, [*rows, [rest - (number % 2) * rng.randint(1, ranks - 1)]], "float64"))
    for _ in range(3):
        ranks = rng.randint(3, 6)
        cases.append((ranks, [[rng.randint(1, ranks - 2)], []], "float64"))
        cases.append((ranks, [[2, 2], [ranks, rng.randint(2, 9)], [1, 1, 2]], "float32"))
    cases += [(1, [[rng.randint(1, 5), 3], [2]], dtype) for dtype in ("float64", "float32")]
    cases.append((3, [[2, 3], [rng.randint(2, 9)]], "float32"))
    return [dict(zip(FIELDS, each, strict=True)) for each in cases]


def measured(**case: Any) -> dict[str, Any]:
    """Parts cut from the padded row of all numbers, and wholes pieced together by hand."""
    tensors = flat.tensors_of(case)
    numbers = [number for each in tensors for number in each.flatten().tolist()]
    while len(numbers) % case["num_ranks"]:
        numbers.append(0.0)
    row = torch.tensor(numbers, dtype=tensors[0].dtype)
    parts = list(row.tensor_split(case["num_ranks"]))
    later = torch.cat([each + rank + 1 for rank, each in enumerate(parts)])
    pieces = later[: sum(each.numel() for each in tensors)].split([e.numel() for e in tensors])
    return {
        "forged_calls": 0,
        "length": len(parts[0]),
        "length_on_last": len(parts[0]),
        "calls": 2,
        "sent_bytes": 2 * (row.nbytes - parts[0].nbytes),
        "dimensions": 1,
        "wrong_parts": 0,
        "wrong_wholes": 0,
        "stale_wholes": 0,
        "kept_bytes": parts[0].nbytes,
        "parts": parts,
        "whole": tensors,
        "changed": [piece.view_as(each) for piece, each in zip(pieces, tensors, strict=True)],
    }


CHECK = Check(
    cases=flat_cases,
    observe=flat.observe,
    judge=Behaviour(
        measured,
        *mistakes_of("u10-flat", observe=flat.observe),
        summarise=flat.summarise,
        questions=questions_of("u10-flat"),
        labels=replay.LABELS
        | {
            "calls": "calls in two wholes",
            "sent_bytes": "bytes that rank 0 sends",
            "length": "numbers in the part of rank 0",
            "length_on_last": "numbers in the part of the last rank",
            "dimensions": "dimensions of a part",
            "wrong_parts": "ranks with a wrong part",
            "wrong_wholes": "wrong tensors in the whole",
            "stale_wholes": "wrong tensors in the whole, after each rank has changed its part",
            "kept_bytes": "bytes that a rank keeps",
        },
    ),
    fallback="course_utils.reference.sharding.FlatShard",
    answers=("course_utils.reference.sharding",),
)
