"""Check of results of attention that are combined over ranks."""

import random
from typing import Any

import torch

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.exercises.model_answers import mistakes_of, questions_of
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


CHECK = Check(
    cases=combine_cases,
    observe=combine.observe,
    judge=Behaviour(
        measured,
        *mistakes_of("u11-combine", combine.observe),
        scenarios=SCENARIOS,
        relative_tolerance=1e-7,
        labels=combine.LABELS,
        summarise=combine.summarise,
        questions=questions_of("u11-combine"),
    ),
    fallback="course_utils.reference.context_parallel.combine_over_ranks",
    answers=("course_utils.reference.context_parallel.combine_over_ranks",),
)
