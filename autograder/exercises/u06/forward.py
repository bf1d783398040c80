"""Check of flash attention on a machine: results, traffic, and a capacity that is kept."""

import random
from typing import Any

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.checking.mistakes import Symptom
from autograder.exercises.model_answers import Edit, any_of, edited
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


# Places of the model answer.
LOAD_Q = "queries = machine.load(q[i : i + block_q])"
SCORES = "scores = queries @ machine.load(k[j : j + block_k]).mT * scale"
START, HIGHER = "1), -torch.inf)", "torch.maximum(maximum, scores.amax(1, keepdim=True))"
SHRINK, TOTAL = "torch.exp(maximum - higher)", "total * shrink + weights.sum"
SUMMED = "summed * shrink + weights @ machine.load(v[j : j + block_k])"
NEXT, DIVIDED = "maximum = higher", "machine.store(summed / total,"
LSE, STORE_LSE = "maximum + total.log()", "machine.store((maximum + total.log())[:, 0], lse[i :"
KEYS, QUERIES = "range(0, len(k), block_k)", "range(0, num_queries, block_q)"


def _keys_outside(scenario: str, kind: str, n: int, m: int, *rest: int) -> dict[str, int]:
    """Traffic of the order in which results go to and fro."""
    d, _, block_k = rest
    k_tiles = -(-m // block_k)
    traffic = 2 * m * d + k_tiles * n * d + (2 * k_tiles - 1) * (n * d + n)
    return {"traffic_elements": traffic} if scenario == "traffic" else {}


TRAFFIC = ("traffic_elements",)
EDITS = (
    *any_of(
        "What was added earlier was measured against an older maximum. What has to happen to it "
        "when the maximum grows?",
        {TOTAL: "total + weights.sum"},
        {SUMMED: SUMMED.replace("summed * shrink", "summed")},
    ),
    Edit(
        "Old sums grow when the maximum grows. Is the factor that brings them to the new maximum "
        "above one or below?",
        {SHRINK: "torch.exp(higher - maximum)"},
    ),
    Edit(
        "Wrong only where an earlier tile held the largest score by far. Which scores is your "
        "maximum the largest of?",
        {HIGHER: "scores.amax(1, keepdim=True)"},
        points=2.0,
    ),
    Edit(
        "Wrong where scores are large. Does each row of a tile have a maximum of its own?",
        {HIGHER: "torch.maximum(maximum, scores.amax())"},
        points=2.0,
    ),
    Edit(
        "Wrong where every score of a row is very low. Is what your maximum starts from never "
        "above a score?",
        {START: "1), 0.0)"},
        points=2.0,
    ),
    Edit(
        "You subtract nothing from the scores. What is exp(900), what is exp(-900), and what may "
        "be subtracted from a whole row without changing its softmax?",
        {HIGHER: "torch.zeros_like(maximum)"},
        points=2.0,
    ),
    Edit(
        "Every row is wrong. By what are scores divided before the softmax?",
        {SCORES: SCORES.replace(" * scale", "")},
    ),
    Edit(
        "What do the weights of a row have to sum to in the end?",
        {DIVIDED: "machine.store(summed,"},
    ),
    Edit(
        "The result is right, its log-sum-exp is not. What was subtracted from the scores before "
        "the sum?",
        {LSE: "total.log()"},
    ),
    Edit(
        "The result is right, and one of the five arrays is as it was. Which one do you never "
        "store to?",
        {f"{STORE_LSE} i + block_q])": "pass"},
    ),
    Edit(
        "Right where tiles divide the keys. How long is the last tile of keys, and does your loop "
        "reach it?",
        {KEYS: "range(0, len(k) - block_k + 1, block_k)"},
        points=2.0,
    ),
    Edit(
        "Right where tiles divide the queries. How long is the last tile of queries, and does your "
        "loop reach it?",
        {QUERIES: "range(0, num_queries - block_q + 1, block_q)"},
        points=2.0,
    ),
    Edit(
        "Right where tiles divide queries and keys. How long are the last tiles, and do your loops "
        "reach them?",
        {
            KEYS: "range(0, len(k) - block_k + 1, block_k)",
            QUERIES: "range(0, num_queries - block_q + 1, block_q)",
        },
        points=2.0,
    ),
    Edit(
        "The result is right, and it leaves fast memory after every tile of keys. When is it "
        "complete?",
        {NEXT: f"{NEXT}\n            machine.store(summed, out[i : i + block_q])"},
        points=3.0,
    ),
    Edit(
        "The result is right, and it leaves fast memory after every tile of keys. When is it "
        "complete?",
        {
            f"{NEXT}\n        {DIVIDED}": f"{NEXT}\n            {DIVIDED}",
            f"        {STORE_LSE}": f"            {STORE_LSE}",
        },
        points=3.0,
    ),
    *(
        Edit(
            "The result is right, and queries are loaded once for each tile of keys. What does "
            "the inner loop change, and what stays?",
            {LOAD_Q: first, SCORES: f"{LOAD_Q}\n            {SCORES}"},
            points=3.0,
            shows=TRAFFIC,
        )
        for first in (f"{LOAD_Q}[:]", LOAD_Q.replace("machine.load", ""))
    ),
    Edit(
        "The result is right, and keys or values are loaded twice for each tile of queries. "
        "What would you have to remember so that one pass over both is enough?",
        {NEXT: f"{NEXT}\n            machine.load(v[j : j + block_k])"},
        points=3.0,
        shows=TRAFFIC,
    ),
    Edit(
        "The result is right, and something stays in fast memory when you are done. Which name "
        "outside your function still holds a tile?",
        {LOAD_Q: f"{LOAD_Q}\n        machine.last = queries"},
        points=3.0,
        shows=("live_elements",),
    ),
    Edit(
        "The result is right, and queries, keys or values are other numbers afterwards. Which of "
        "the five arrays are yours to store to?",
        {LOAD_Q: f"{LOAD_Q}\n        machine.store(queries * scale, q[i : i + block_q])"},
        shows=("changed_inputs",),
    ),
)
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
        *edited("u06-forward", EDITS, observe=forward.observe),
        *SYMPTOMS,
        summarise=forward.summarise,
        scenarios=SCENARIOS,
        labels=forward.LABELS,
        questions={
            "changed_inputs": "Which of the five arrays do you store to, and which are given?",
            "live_elements": "Something stays in fast memory when you are done. Which name outside "
            "your function still holds a tile?",
            "extreme": "Right where scores are small. Of which numbers do you take the "
            "exponential, and how large can they become?",
            "ragged": "Right where tiles divide the sequence. What is different in the last tile?",
            "traffic": "The result is right, and more numbers move than must. Which tile comes or "
            "goes more often than it has to?",
        },
    ),
    fallback="course_utils.reference.tiled_attention.flash_forward",
    answers=ANSWERS,
    allowed_names=("course_utils.instruments.machine.Machine",),  # of its argument
)
