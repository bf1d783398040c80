"""Check of clipping by the norm of a gradient that no rank has whole."""

import random
from typing import Any

import torch

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.exercises.model_answers import mistakes_of, questions_of
from autograder.observing import replay
from autograder.observing.u09.on_ranks import FLOAT64_BYTES
from autograder.observing.u10 import norm

FIELDS = ("num_ranks", "lengths", "max_norm")


def norm_cases(seed: int) -> list[Case]:
    """Norms above the limit and below it, between that of a rank and that of all; empty parts."""
    rng = random.Random(seed)
    cases: list[tuple[int, list[int], float]] = [(2, [4, 5], 1.0)]
    for number in range(19):
        ranks = (2, 3, 4, 1)[number % 4]
        lengths = [rng.randint(4, 9) for _ in range(rng.randint(1, 3))]
        if number % 5 == 0:
            lengths = [1, rng.randint(4, 20), 2]  # nothing is left of it on the last ranks
        total = 1.0 + sum(lengths) * ranks
        cases.append((ranks, lengths, (0.25, 0.7 * total**0.5, total)[number % 3]))
    return [dict(zip(FIELDS, each, strict=True)) for each in cases]


def measured(**case: Any) -> dict[str, Any]:
    """Norm and clipping of all parts as one vector."""
    every = [norm.gradients_of(case, rank) for rank in range(case["num_ranks"])]
    whole = torch.cat([each for rank in every for each in rank])
    before = float(whole.norm())
    scale = min(1.0, case["max_norm"] / before)
    return {
        "forged_calls": 0,
        "norm": before,
        "norm_on_last": before,
        "length": before * scale,
        "wrong_parts": 0,
        "calls": 1,
        "most_bytes": FLOAT64_BYTES,
        "gradients": [[each * scale for each in rank] for rank in every],
    }


# PyTorch adds 1e-6 to the norm that it divides by; and a sum may travel in fp32.
WITH_EPSILON = 1e-5


CHECK = Check(
    cases=norm_cases,
    observe=norm.observe,
    judge=Behaviour(
        measured,
        *mistakes_of("u10-norm", observe=norm.observe),
        summarise=norm.summarise,
        relative_tolerance=WITH_EPSILON,
        questions=questions_of("u10-norm"),
        labels=replay.LABELS
        | {
            "norm": "the norm that rank 0 returns",
            "norm_on_last": "the norm that the last rank returns",
            "length": "the norm of all parts afterwards",
            "wrong_parts": "wrong parts",
            "calls": "calls of a rank",
            "most_bytes": "bytes in rank 0's calls",
        },
    ),
    fallback="course_utils.reference.sharding.clip_sharded",
    answers=("course_utils.reference.sharding",),
)
