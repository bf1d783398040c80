"""Check of a softmax-weighted sum over blocks that come one at a time."""

import random
from typing import Any

import torch

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.exercises.model_answers import mistakes_of, questions_of
from autograder.observing.checksums import checksum
from autograder.observing.u06 import online
from autograder.observing.u06.online import BY_HAND, KINDS

ANSWERS = ("course_utils.reference.online_softmax", "course_utils.reference.tiled_attention")
NAMES = ("scenario", "kind", "rows", "block_lengths", "width")


def online_cases(seed: int) -> list[Case]:
    """Every kind of scores with equal and unequal blocks; the case by hand first."""
    rng = random.Random(seed)
    cases = [("ordinary", BY_HAND, 1, [2, 1], 1)]
    for scenario, kinds in KINDS.items():
        for number in range(8):
            kind = kinds[number % len(kinds)]
            lengths = _equal(rng) if number % 2 else [rng.randint(1, 5) for _ in range(5)]
            if scenario == "ordinary" and number == 4:
                lengths = [rng.randint(3, 9)]
            cases.append((scenario, kind, rng.randint(3, 6), lengths, rng.randint(2, 4)))
    return [dict(zip(NAMES, case, strict=True)) for case in cases]


def _equal(rng: random.Random) -> list[int]:
    """Equal blocks, and a shorter last one."""
    length = rng.randint(3, 5)
    return [length] * rng.randint(3, 5) + [rng.randint(1, length - 1)]


def measured(**case: Any) -> dict[str, Any]:
    """The softmax over all keys at once; a row without keys has zeros and minus infinity."""
    scores, values = online.inputs_of(case)
    has_keys = (scores > -torch.inf).any(1, keepdim=True)
    out = torch.where(has_keys, scores, 0.0).softmax(1) @ values * has_keys
    lse = scores.logsumexp(1)
    return {
        "blocks_too_many": 0,
        "wrong_rows": 0,
        "wrong_lse": 0,
        "result_checksum": checksum(out, out),
        "lse_checksum": checksum(lse, lse),
        "out": out,
        "lse": lse,
    }


CHECK = Check(
    cases=online_cases,
    observe=online.observe,
    judge=Behaviour(
        measured,
        *mistakes_of("u06-online", observe=online.observe),
        summarise=online.summarise,
        scenarios=tuple(KINDS),
        labels=online.LABELS,
        questions=questions_of("u06-online"),
    ),
    fallback="course_utils.reference.online_softmax.online_softmax",
    answers=ANSWERS,
)
