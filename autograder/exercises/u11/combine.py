"""Check of results of attention that are combined over ranks."""

import random
from typing import Any

import torch

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.exercises.model_answers import Edit, edited
from autograder.observing.checksums import checksum
from autograder.observing.u06.merge import exact
from autograder.observing.u11 import combine
from autograder.observing.u11.combine import (
    APART,
    HIGH,
    NONE_AT_ALL,
    NONE_HERE,
    PLAIN,
    SCENARIOS,
    scores_and_values,
)

FIELDS = ("scenario", "kind", "num_ranks", "rows", "keys_per_rank", "width")


def combine_cases(seed: int) -> list[Case]:
    """Scores of every size, rows without keys on a rank or at all; one rank to four."""
    rng = random.Random(seed)
    cases: list[tuple[Any, ...]] = [("ordinary", PLAIN, 2, 2, 2, 2)]
    for scenario, kinds in zip(
        SCENARIOS, ((PLAIN, NONE_HERE, NONE_AT_ALL), (HIGH, APART)), strict=True
    ):
        for number in range(10):
            num_ranks = (2, 3, 4, 2, 1)[number % 5]
            sizes = (rng.randint(2, 4), rng.randint(1, 4), rng.randint(2, 5))
            cases.append((scenario, kinds[number % len(kinds)], num_ranks, *sizes))
    return [dict(zip(FIELDS, case, strict=True)) for case in cases]


def measured(**case: Any) -> dict[str, Any]:
    """Attention over all keys at once."""
    scores, values = scores_and_values(case)
    result, _ = exact(torch.cat(scores, 1), torch.cat(values))
    return {
        "forged_calls": 0,
        "calls": 2,
        "bytes": case["num_ranks"] * case["rows"] * result.element_size() + result.nbytes,
        "wrong_results": 0,
        "result_checksum": checksum(result, result),
        "changed": 0,
        "result": result,
    }


WHOLE, SHIFT = (
    "of_all.view(comm.size, -1).logsumexp(0)",
    "torch.where(whole == -torch.inf, 0.0, whole)",
)
SHARE = f"torch.exp(lse - {SHIFT})"
COMBINED, CALL = "combined = share[:, None] * out", "comm.all_reduce(combined)"

EDITS = (
    Edit(
        "Right but for rows that no rank has a key for. What is minus infinity minus minus "
        "infinity?",
        {SHIFT: "whole"},
        points=1.0,
    ),
    Edit(
        "All ranks count alike. Which of them saw the larger scores?",
        {COMBINED: "combined = out / comm.size"},
    ),
    Edit(
        "The shares of the ranks do not sum to one. What does each rank have of the whole sum?",
        {COMBINED: "combined = out.clone()"},
    ),
    Edit(
        "Log-sum-exps are not sums. What has to be taken of one to get the sum that it stands for?",
        {SHARE: "lse / of_all.view(comm.size, -1).sum(0)"},
    ),
    Edit(
        "Right but for scores far from zero. What is exp(2000), and of which difference could the "
        "exponential be taken?",
        {SHARE: "lse.exp() / of_all.view(comm.size, -1).exp().sum(0).clamp_min(1e-300)"},
        points=1.0,
    ),
    Edit(
        "The shares are taken of the largest rank's sum, not of all sums together. What do the "
        "sums of all ranks add up to?",
        {WHOLE: "of_all.view(comm.size, -1).amax(0)"},
    ),
    Edit(
        "Each rank has its own share of the result. Which call adds the shares up?",
        {CALL: "pass"},
    ),
    Edit(
        "The result is right, and out is other numbers afterwards. Which of your operations writes "
        "into a tensor that it was given?",
        {COMBINED: "combined = out.mul_(share[:, None])"},
        shows=("changed",),
    ),
)

CHECK = Check(
    cases=combine_cases,
    observe=combine.observe,
    judge=Behaviour(
        measured,
        *edited("u11-combine", EDITS, combine.observe),
        scenarios=SCENARIOS,
        relative_tolerance=1e-7,
        labels=combine.LABELS,
        summarise=combine.summarise,
        questions={
            "extreme": "Right where scores are small. Of which numbers do you take the "
            "exponential, and how large can they become?",
            "calls": "What does a rank need of the others: their results, or one number for each "
            "row?",
            "bytes": "What does a rank need of the others: their results, or one number for each "
            "row?",
            "wrong_results": "On two ranks with one key each: what is the share of each in the "
            "softmax over both?",
        },
    ),
    fallback="course_utils.reference.context_parallel.combine_over_ranks",
    answers=("course_utils.reference.context_parallel.combine_over_ranks",),
)
