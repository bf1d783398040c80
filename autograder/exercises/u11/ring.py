"""Check of ring attention: results, bytes, one block of keys at a time, hidden messages."""

import random
from typing import Any

import torch

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.exercises.model_answers import Edit, edited
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


OWNER, TURNS = "(comm.rank - turn) % comm.size", "turn in range(comm.size)"
MERGED = "part if result is None else merge(*result, *part)"
PASSED_ON, NOT_LAST = "k, v = coming", "if turn < comm.size - 1:"
ATTEND = f"part = attend_block(q, k, v, {OWNER})"
RESULT, RETURN = f"result = {MERGED}", "return result[0]"
RUNNING = """old, top = top, torch.maximum(top, part[1])
        added, older = (torch.exp(each - top)[:, None] for each in (part[1], old))
        numbers, weights = {} + added * part[0], {} + added"""
WAIT = "for each in in_flight:\n            each.wait()\n"

EDITS = (
    Edit(
        "Your results are means over blocks, whatever the blocks' scores. Which number says how "
        "much a block weighs?",
        {
            MERGED: "part if result is None else (result[0] + (part[0] - result[0]) / (turn + 1), "
            "part[1])"
        },
    ),
    Edit(
        "The last block that came has replaced all before it. Which operation puts two results "
        "together?",
        {MERGED: "part"},
    ),
    Edit(
        "The right blocks come by, and are taken for those of other ranks: the mask is wrong. "
        "Whose keys does rank 0 hold after the first turn?",
        {OWNER: "(comm.rank + turn) % comm.size"},
        shows=("wrong_results",),
    ),
    Edit(
        "Every block is taken for this rank's own: the mask is wrong. Whose keys are here in turn "
        "1?",
        {OWNER: "comm.rank"},
        shows=("wrong_results",),
    ),
    Edit(
        "What came is received and never used. Which keys does the next turn attend to?",
        {PASSED_ON: "pass"},
        shows=("wrong_results",),
    ),
    Edit(
        "All is right, and a block is sent once more than anybody needs it. In which turn are "
        "there keys that no rank waits for?",
        {NOT_LAST: "if comm.size > 1:"},
        shows=("sent_bytes", "least_sent_bytes"),
    ),
    Edit(
        "All is right but the time: the rank waits for its links, and then computes. Which keys "
        "does it compute with, and are they here already?",
        {ATTEND: f"for each in in_flight:\n            each.wait()\n        {ATTEND}"},
        points=2.0,
        shows=("late",),
    ),
    Edit(
        "All is right, and what came is copied into the keys and values that you were given. Who "
        "may still need those, and what could hold the new ones?",
        {PASSED_ON: "if in_flight:\n            k, v = k.copy_(coming[0]), v.copy_(coming[1])"},
        shows=("changed",),
    ),
    Edit(
        "You skip the blocks of later ranks. Does a later rank always hold later positions, and "
        "who sets the mask?",
        {
            ATTEND: f"owner = {OWNER}\n"
            "        is_hidden = owner > comm.rank\n"
            "        part = result if is_hidden else attend_block(q, k, v, owner)",
            MERGED: "part if result is None or is_hidden else merge(*result, *part)",
        },
        shows=("wrong_results",),
    ),
    Edit(
        "The last block never comes by. How many turns see all blocks, this rank's own among them?",
        {TURNS: "turn in range(max(1, comm.size - 1))", NOT_LAST: "if turn < comm.size - 2:"},
    ),
    *(
        Edit(
            "Each block is weighed against the largest score so far, and a later block may have a "
            "larger one. What becomes of what was added up under the old maximum?",
            {
                "result = None": "numbers, weights, top = 0 * q, 0 * q[:, :1], "
                "torch.full_like(q[:, 0], -torch.inf)",
                RESULT: RUNNING.format(numbers, weights),
                RETURN: "return numbers / weights",
            },
            shows=("wrong_results", "result_length"),
        )
        for numbers, weights in (
            ("numbers", "weights"),
            ("older * numbers", "weights"),
            ("numbers", "older * weights"),
        )
    ),
)

CHECK = Check(
    cases=ring_cases,
    observe=ring.observe,
    judge=Behaviour(
        measured,
        *edited("u11-ring", EDITS, ring.observe),
        scenarios=SCENARIOS,
        relative_tolerance=1e-9,
        labels=ring.LABELS,
        summarise=ring.summarise,
        questions={
            "early_calls": "Which keys does each call of `attend_block` use, and have they "
            "arrived?",
            "changed": "Which line writes into `k` or `v`, and who else holds them?",
            "collectives": "A collective gives every rank all keys at once. Which messages between "
            "neighbours would bring them one block at a time?",
            "extreme": "Right where scores are small. Of which numbers do you take the "
            "exponential, and what does `merge` do about it?",
            "overlapped": "All is right, and it takes longer. What could a rank compute while keys "
            "are on their way?",
            "sent_bytes": "How many turns are there, and after which of them does a rank still "
            "need new keys?",
            "attend_calls": "How many blocks of keys are there, and how often does a rank need "
            "each?",
            "most_keys": "How many keys does one rank hold? What happens to those that it has "
            "used?",
            "wrong_results": "With two ranks, write down for each turn whose keys rank 1 has. "
            "Which result goes into which merge?",
        },
    ),
    fallback="course_utils.reference.context_parallel.ring_attention",
    answers=("course_utils.reference.context_parallel.ring_attention",),
    allowed_names=("course_utils.reference.online_softmax.merge",),
)
