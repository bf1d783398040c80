"""Check of flash attention on a machine: results, traffic, and a capacity that is kept."""

import random
from typing import Any

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.checking.mistakes import Symptom
from autograder.exercises.model_answers import mistakes_of, questions_of
from autograder.exercises.u06.online import ANSWERS
from autograder.observing.checksums import checksum
from autograder.observing.u06 import forward
from autograder.observing.u06.forward import LOUD, LOW, SCENARIOS

NAMES = ("scenario", "kind", "num_queries", "num_keys", "head_dim", "block_q", "block_k")


def forward_cases(seed: int) -> list[Case]:
    """Whole and ragged tiles, taller and wider ones, loud and very low scores.

    Last one query and so many keys to a tile that two tiles of keys and one of values do not fit.
    """
    rng = random.Random(seed)
    cases = [("ordinary", "", 2, 2, 1, 1, 1)]
    for number in range(5):
        tile, tiles = _tile(rng, number), (rng.randint(2, 3), rng.randint(3, 5))
        cases.append(("ordinary", "", *_whole(tile, tiles), *tile))
    for number in range(6):
        tile = _tile(rng, number)
        cases.append(("extreme", (LOUD, LOW)[number % 2], *_whole(tile, (2, 4)), *tile))
    for number in range(6):
        tile = _tile(rng, number)
        n, m, d = _whole(tile, (rng.randint(2, 3), rng.randint(3, 4)))
        kind = (LOUD, LOW, "")[number % 3]
        cases.append(("ragged", kind, n + 1, m + tile[1] - 1, d, *tile))
    for number in range(6):
        tile = _tile(rng, number)
        n, m, d = _whole(tile, (rng.randint(2, 3), rng.randint(4, 6)))
        more_n, more_m = (0, 0) if number < 2 else (tile[0] - 1, 1)
        cases.append(("traffic", "", n + more_n, m + more_m, d, *tile))
    wide = rng.randint(12, 16)
    cases.append(("traffic", "", rng.randint(2, 3), 3 * wide + 1, rng.randint(8, 10), 1, wide))
    return [dict(zip(NAMES, case, strict=True)) for case in cases]


def _tile(rng: random.Random, number: int) -> tuple[int, int]:
    """Queries and keys in a tile: in turn taller, wider, and square."""
    small, large = rng.randint(2, 4), rng.randint(5, 9)
    return ((large, small), (small, large), (large, large))[number % 3]


def _whole(tile: tuple[int, int], tiles: tuple[int, int]) -> tuple[int, int, int]:
    """Queries, keys, and a width of heads between the two of a tile."""
    return tile[0] * tiles[0], tile[1] * tiles[1], 1 + (tile[0] + tile[1]) // 2


def measured(**case: Any) -> dict[str, Any]:
    """Attention with every score in memory, and the least traffic with a tile of queries at rest.

    Queries move once, keys and values once for each tile of queries, results once. A program that
    moves less is right too.
    """
    q, k, v = forward.inputs_of(case)
    scores = q @ k.mT / q.shape[1] ** 0.5
    out, lse = scores.softmax(1) @ v, scores.logsumexp(1)
    num_tiles = len(range(0, len(q), case["block_q"]))
    traffic = q.numel() + num_tiles * (k.numel() + v.numel()) + out.numel() + lse.numel()
    return {
        "wrong_rows": 0,
        "wrong_lse": 0,
        "result_checksum": checksum(out, out),
        "lse_checksum": checksum(lse, lse),
        "changed_inputs": 0,
        "traffic_elements": traffic if case["scenario"] == "traffic" else 0,
        "stored_elements": out.numel() + lse.numel() if case["scenario"] == "traffic" else 0,
        "live_elements": 0,
        "out": out,
        "lse": lse,
    }


def _keys_outside(scenario: str, kind: str, n: int, m: int, *rest: int) -> dict[str, int]:
    """Traffic of the order in which results go to and fro."""
    d, _, block_k = rest
    k_tiles = -(-m // block_k)
    traffic = 2 * m * d + k_tiles * n * d + (2 * k_tiles - 1) * (n * d + n)
    return {"traffic_elements": traffic} if scenario == "traffic" else {}


SYMPTOMS = (
    Symptom(
        "The result is right, and results go to and fro between the memories: keys are in your "
        "outer loop. What would stay in fast memory if queries were?",
        _keys_outside,
    ),
)

CHECK = Check(
    cases=forward_cases,
    observe=forward.observe,
    judge=Behaviour(
        measured,
        *mistakes_of("u06-forward", observe=forward.observe),
        *SYMPTOMS,
        summarise=forward.summarise,
        scenarios=SCENARIOS,
        labels=forward.LABELS,
        questions=questions_of("u06-forward"),
    ),
    fallback="course_utils.reference.tiled_attention.flash_forward",
    answers=ANSWERS,
    allowed_names=("course_utils.instruments.machine.Machine",),  # of its argument
)
