"""Check of ring attention: results, bytes, one block of keys at a time, hidden messages."""

import random
from typing import Any

import torch

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.exercises.model_answers import mistakes_of, questions_of
from autograder.observing.observation import length_of
from autograder.observing.u11 import ring
from autograder.observing.u11.ring import (
    EARLY_AND_LATE,
    FLOAT64_BYTES,
    LAYOUTS,
    ORDINARY,
    OVERLAPPED,
    SCENARIOS,
    SIDE_BY_SIDE,
    cluster_for,
    on_rank,
    positions_of,
    sequence_of,
)
from course_utils.reference.context_parallel import ring_attention

FIELDS = ("scenario", "layout", "num_ranks", "piece_length", "head_dim")


def ring_cases(seed: int) -> list[Case]:
    """Both layouts on one rank to four, small and large scores, and messages worth hiding.

    Ranks that hold neighbours come first: they are told of first.
    """
    rng = random.Random(seed)
    cases: list[tuple[Any, ...]] = [(ORDINARY, SIDE_BY_SIDE, 2, 1, 2)]
    for scenario in SCENARIOS:
        is_timed = scenario == OVERLAPPED
        for number, num_ranks in enumerate((2, 3, 4, 2, 4, 3, 2 if is_timed else 1)):
            layout = EARLY_AND_LATE if is_timed else LAYOUTS[number % 2]
            length = rng.randint(4, 6) if is_timed else rng.randint(1, 3)
            cases.append((scenario, layout, num_ranks, length, rng.randint(2, 4)))
    cases.sort(key=lambda case: case[1] == EARLY_AND_LATE)
    return [dict(zip(FIELDS, case, strict=True)) for case in cases]


def measured(**case: Any) -> dict[str, Any]:
    """Attention over the whole sequence on one rank; each block of keys passes all other ranks."""
    q, k, v = sequence_of(case)
    is_later = torch.ones(len(q), len(q), dtype=torch.bool).triu(1)
    scores = (q @ k.T * case["head_dim"] ** -0.5).masked_fill(is_later, -torch.inf)
    whole = scores.softmax(1) @ v
    c, tokens = case["num_ranks"], 2 * case["piece_length"]
    sent = 2 * (c - 1) * tokens * case["head_dim"] * FLOAT64_BYTES
    right = {
        "forged_calls": 0,
        "collectives": 0,
        "sent_bytes": sent,
        "least_sent_bytes": sent,
        "attend_calls": c,
        "most_keys": tokens,
        "early_calls": 0,
        "wrong_results": 0,
        "result_length": length_of([whole[positions_of(case)[-1].flatten()]]),
        "changed": 0,
        "results": [whole[each.flatten()] for each in positions_of(case)],
        "seconds": [],
    }
    if case["scenario"] == OVERLAPPED:
        run = cluster_for(case).run(on_rank, ring_attention, case)
        return {**right, "late": 0, "seconds": [run.step_seconds]}
    return right


CHECK = Check(
    cases=ring_cases,
    observe=ring.observe,
    judge=Behaviour(
        measured,
        *mistakes_of("u11-ring", ring.observe),
        scenarios=SCENARIOS,
        relative_tolerance=1e-9,
        labels=ring.LABELS,
        summarise=ring.summarise,
        questions=questions_of("u11-ring"),
    ),
    fallback="course_utils.reference.context_parallel.ring_attention",
    answers=("course_utils.reference.context_parallel.ring_attention",),
    allowed_names=("course_utils.reference.online_softmax.merge",),
)
