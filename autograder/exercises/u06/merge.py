"""Check of two partial results of attention put together."""

import random
from typing import Any

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.exercises.model_answers import mistakes_of, questions_of
from autograder.exercises.u06.online import ANSWERS
from autograder.observing.checksums import checksum
from autograder.observing.u06 import merge
from autograder.observing.u06.merge import BY_HAND, SCENARIOS

NAMES = ("scenario", "kind", "rows", "first_keys", "other_keys", "width")
KINDS = {
    "ordinary": ("ordinary",),
    "extreme": ("high", "low", "far apart"),
    "empty": ("no key in the first", "no key in the other", "no key at all"),
}


def merge_cases(seed: int) -> list[Case]:
    """Every kind with more keys in the first part, and with more in the other."""
    rng = random.Random(seed)
    cases: list[tuple[Any, ...]] = [("ordinary", BY_HAND, 1, 2, 1, 1)]
    for scenario, kinds in KINDS.items():
        for number in range(7):
            few, many = rng.randint(1, 4), rng.randint(6, 12)
            keys = (few, many) if number % 2 else (many, few)
            sizes = (rng.randint(3, 6), *keys, rng.randint(2, 4))
            cases.append((scenario, kinds[number % len(kinds)], *sizes))
    return [dict(zip(NAMES, case, strict=True)) for case in cases]


def measured(**case: Any) -> dict[str, Any]:
    """Attention over all keys at once."""
    out, lse = merge.exact(*merge.scores_and_values(case))
    return {
        "wrong_rows": 0,
        "wrong_lse": 0,
        "result_checksum": checksum(out, out),
        "lse_checksum": checksum(lse, lse),
        "changed_inputs": 0,
        "out": out,
        "lse": lse,
    }


CHECK = Check(
    cases=merge_cases,
    observe=merge.observe,
    judge=Behaviour(
        measured,
        *mistakes_of("u06-merge", observe=merge.observe),
        summarise=merge.summarise,
        scenarios=SCENARIOS,
        labels=merge.LABELS,
        questions=questions_of("u06-merge"),
    ),
    fallback="course_utils.reference.online_softmax.merge",
    answers=ANSWERS,
)
