"""Check of the speed of speculative decoding, against all ways in which drafts are accepted."""

import random

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.checking.precision import PROMISED
from autograder.exercises.model_answers import mistakes_of

NAMES = ("acceptance", "draft_cost", "draft_length")


def draft_cases(seed: int) -> list[Case]:
    """Drafts that never fit and always fit, free ones and dear ones, none, one, many."""
    rng = random.Random(seed)
    chance, cost = rng.randint(60, 95) / 100, rng.randint(5, 20) / 100
    cases = [(0.5, 0.25, 2), (chance, 0.05, 4), (1.0, cost, 5), (0.0, cost, 3), (chance, 0.0, 4)]
    cases += [(chance, cost, 0), (chance, cost, 1)]
    while len(cases) < 22:
        acceptance, cost = rng.randint(20, 95) / 100, rng.randint(2, 40) / 100
        cases.append((acceptance, cost, rng.randint(2, 12)))
    return [dict(zip(NAMES, each, strict=True)) for each in cases]


def enumerated(acceptance: float, draft_cost: float, draft_length: int) -> dict[str, float]:
    """Tokens of each outcome with its chance: the first rejection, or none."""
    tokens, chance = 0.0, 1.0
    for accepted in range(draft_length):
        tokens += chance * (1 - acceptance) * (accepted + 1)
        chance *= acceptance
    tokens += chance * (draft_length + 1)
    seconds = 1.0
    for _ in range(draft_length):
        seconds += draft_cost
    return {"tokens": tokens, "speedup": tokens / seconds}


CHECK = Check(
    cases=draft_cases,
    judge=EqualTo(enumerated, *mistakes_of("u13-speculate"), relative_tolerance=PROMISED),
    fallback="course_utils.formulas.serving.speculation",
)
