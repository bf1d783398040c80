"""Check of the speed of speculative decoding, against all ways in which drafts are accepted."""

import random

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.checking.precision import PROMISED
from autograder.exercises.model_answers import Edit, edited

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


TOKENS, TIME = "acceptance**i for i in range(draft_length + 1)", "draft_length * draft_cost + 1"
SUM = f"sum({TOKENS})"
SPEEDUP = '"speedup": tokens / time'
EDITS = (
    Edit(
        "As if each draft counted whatever came before it. What becomes of the drafts behind a "
        "rejected one?",
        {SUM: "1 + acceptance * draft_length"},
    ),
    Edit(
        "The large model's own token is missing. What comes out where the first draft is rejected?",
        {SUM: "sum(acceptance**i for i in range(1, draft_length + 1))"},
    ),
    Edit(
        "One token too few where all drafts fit. How many positions does the large model look at?",
        {TOKENS: "acceptance**i for i in range(max(1, draft_length))"},
    ),
    Edit(
        "As if drafts went on until one is rejected. How many are there at most?",
        {SUM: "1 / (1 - min(acceptance, 0.999999))"},
    ),
    Edit(
        "The draft model runs once with you. How many tokens does it make, one after the other?",
        {TIME: "draft_cost + 1"},
        points=0.75,
    ),
    Edit(
        "The large model's pass is missing in your time. Who looks at the drafts?",
        {TIME: "draft_length * draft_cost or 1"},
        points=0.75,
    ),
    Edit(
        "The large model takes a pass for each token with you. How long does it take for a few "
        "tokens at once?",
        {TIME: "draft_length * draft_cost + draft_length + 1"},
        points=0.75,
    ),
    Edit(
        "Your speedup is below one where it should be above. Which of tokens and time goes on top?",
        {SPEEDUP: '"speedup": time / tokens'},
        points=0.75,
    ),
)

CHECK = Check(
    cases=draft_cases,
    judge=EqualTo(enumerated, *edited("u13-speculate", EDITS), relative_tolerance=PROMISED),
    fallback="course_utils.formulas.serving.speculation",
)
