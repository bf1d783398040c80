"""Check of clipping by the norm of a gradient that no rank has whole."""

import random
from typing import Any

import torch

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.exercises.model_answers import Edit, edited
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

SQUARES = "torch.stack([each.square().sum() for each in gradients]).sum()"
SUM, ROOT = "comm.all_reduce(squares)", "norm = squares.sqrt().item()"
IF, SCALE = "if norm > max_norm:", "each.mul_(max_norm / norm)"
EDITS = (
    Edit(
        "You add up norms. Is a norm a sum? Which number of a part is?",
        {SQUARES: SQUARES.replace("square().sum()", "norm()"), ROOT: "norm = squares.item()"},
        shows=("norm",),
    ),
    Edit(
        "You add up the ranks' norms. Is a norm a sum? Which number of a part is?",
        {SQUARES: f"{SQUARES}.sqrt()", ROOT: "norm = squares.item()"},
        shows=("norm",),
    ),
    Edit(
        "Each rank clips by its own norm. Who knows that of all?",
        {SUM: "pass"},
        shows=("norm",),
    ),
    Edit(
        "Small gradients grow. What should happen where the norm is below the limit?",
        {IF: "if norm > 0:"},
        shows=("length",),
    ),
    Edit(
        "Each part becomes as long as the limit. By which norm is a part divided?",
        {SCALE: "each.mul_(max_norm / each.norm().clamp(min=1e-300))"},
        shows=("length",),
    ),
    Edit(
        "The norm is squared. What turns a sum of squares into a norm?",
        {ROOT: "norm = squares.item()"},
        shows=("norm",),
    ),
    Edit(
        "The norm is right, and parts stay as they are. Does your scaling write into them?",
        {SCALE: "each = each * (max_norm / norm)"},
        shows=("length",),
    ),
    Edit(
        "There is a call for each tensor. Which single number do the others need of this rank?",
        {
            SQUARES: "torch.zeros(())",
            SUM: "squares = squares.double()\n    for each in gradients:\n"
            "        one = each.square().sum()\n        comm.all_reduce(one)\n"
            "        squares = squares + one",
        },
        shows=("calls",),
    ),
    Edit(
        "Two calls. Which one number of each rank is enough?",
        {SUM: f"count = torch.tensor(1.0)\n    comm.all_reduce(count)\n    {SUM}"},
        shows=("calls",),
    ),
    Edit(
        "Numbers are clipped one by one. What is scaled as a whole, and keeps its direction?",
        {SCALE: "each.clamp_(-max_norm, max_norm)"},
        shows=("length",),
    ),
    Edit(
        "The mean over ranks takes part. Of what are the ranks' numbers parts?",
        {ROOT: "norm = (squares / comm.size).sqrt().item()"},
        shows=("norm",),
    ),
)

CHECK = Check(
    cases=norm_cases,
    observe=norm.observe,
    judge=Behaviour(
        measured,
        *edited("u10-norm", EDITS, observe=norm.observe),
        summarise=norm.summarise,
        relative_tolerance=WITH_EPSILON,
        questions={
            "norm": "Which number of each part adds up to something of the whole?",
            "calls": "One number of each rank is enough. Which?",
            "most_bytes": "One number of each rank is enough. Which?",
            "length": "By which factor does every number shrink, and when not at all?",
        },
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
