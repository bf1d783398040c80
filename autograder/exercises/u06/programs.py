"""The checks of unit 06 on programs: online softmax, attention in tiles, and merged results."""

import random
from typing import Any

import torch
from torch import Tensor

from autograder.checking.exercise_check import Case, named
from autograder.checking.mistakes import Symptom
from autograder.exercises.declaring import declares_check
from autograder.observers.checksums import checksum
from autograder.observers.exact_attention import attend_exactly
from autograder.observers.kept import gradients_of
from autograder.observers.u06 import backward, forward, merge, online
from autograder.observers.u06.backward import APART, FROZEN, PARTS, QKV, inputs_of
from autograder.observers.u06.forward import LOUD, LOW

# === u06-online
# A softmax-weighted sum over blocks that come one at a time.


ANSWERS = ("course_utils.reference.online_softmax", "course_utils.reference.tiled_attention")
ONLINE_NAMES = ("scenario", "kind", "rows", "block_lengths", "width")


def online_cases(seed: int) -> list[Case]:
    """Every kind of scores with equal and unequal blocks; the case by hand first."""
    rng = random.Random(seed)
    cases = [("ordinary", online.BY_HAND, 1, [2, 1], 1)]
    for scenario, kinds in online.KINDS.items():
        for number in range(8):
            kind = kinds[number % len(kinds)]
            lengths = _equal(rng) if number % 2 else [rng.randint(1, 5) for _ in range(5)]
            if scenario == "ordinary" and number == 4:
                lengths = [rng.randint(3, 9)]
            cases.append((scenario, kind, rng.randint(3, 6), lengths, rng.randint(2, 4)))
    return [named(ONLINE_NAMES, case) for case in cases]


def _equal(rng: random.Random) -> list[int]:
    """Equal blocks, and a shorter last one."""
    length = rng.randint(3, 5)
    return [length] * rng.randint(3, 5) + [rng.randint(1, length - 1)]


@declares_check(
    "u06-online",
    online_cases,
    observer=online,
    scenarios=tuple(online.KINDS),
    fallback="course_utils.reference.online_softmax.online_softmax",
    give_away=ANSWERS,
)
def measured_online(**case: Any) -> dict[str, Any]:
    """The softmax over all keys at once; a row without keys has zeros and minus infinity."""
    scores, values = online.inputs_of(case)
    has_keys = (scores > -torch.inf).any(1, keepdim=True)
    out = torch.where(has_keys, scores, 0.0).softmax(1) @ values * has_keys
    lse = scores.logsumexp(1)
    return {
        "result_checksum": checksum(out, out),
        "lse_checksum": checksum(lse, lse),
        "out": out,
        "lse": lse,
    }


# === u06-forward
# Flash attention on a machine: results, traffic, and a capacity that is kept.


FORWARD_NAMES = ("scenario", "kind", "num_queries", "num_keys", "head_dim", "block_q", "block_k")


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
    return [named(FORWARD_NAMES, case) for case in cases]


def _tile(rng: random.Random, number: int) -> tuple[int, int]:
    """Queries and keys in a tile: in turn taller, wider, and square."""
    small, large = rng.randint(2, 4), rng.randint(5, 9)
    return ((large, small), (small, large), (large, large))[number % 3]


def _whole(tile: tuple[int, int], tiles: tuple[int, int]) -> tuple[int, int, int]:
    """Queries, keys, and a width of heads between the two of a tile."""
    return tile[0] * tiles[0], tile[1] * tiles[1], 1 + (tile[0] + tile[1]) // 2


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


@declares_check(
    "u06-forward",
    forward_cases,
    observer=forward,
    symptoms=SYMPTOMS,
    scenarios=forward.SCENARIOS,
    fallback="course_utils.reference.tiled_attention.flash_forward",
    give_away=ANSWERS,
    allowed_names=("course_utils.instruments.two_level_memory.TwoLevelMemory",),
)
def measured_forward(**case: Any) -> dict[str, Any]:
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
        "result_checksum": checksum(out, out),
        "lse_checksum": checksum(lse, lse),
        "traffic_elements": traffic if case["scenario"] == "traffic" else 0,
        "stored_elements": out.numel() + lse.numel() if case["scenario"] == "traffic" else 0,
        "out": out,
        "lse": lse,
    }


# === u06-backward
# A backward pass that makes attention weights again: gradients, bytes, FLOPs.


BACKWARD_NAMES = ("kind", "heads", "seq_len", "head_dim", "block")


def backward_cases(seed: int) -> list[Case]:
    """Whole and ragged tiles, one head and several, parts of one tensor, frozen values."""
    rng = random.Random(seed)
    cases: list[tuple[Any, ...]] = [(APART, [1], 4, 2, 2)]
    kinds = (APART, PARTS, APART, PARTS, FROZEN)
    for number in range(20):
        block = rng.randint(5, 8)
        num_tiles = 3 if number < 5 else 2
        missing = 0 if number % 2 else rng.randint(1, block - 1)  # from the last tile
        seq_len = num_tiles * block - missing
        heads = ([1], [2], [1, 2])[number % 3]
        cases.append((kinds[number % 5], heads, seq_len, rng.randint(2, 3), block))
    cases += [(APART, [2], rng.randint(4, 8), 3, 9), (APART, [1], rng.randint(3, 8), 2, 1)]
    return [named(BACKWARD_NAMES, case) for case in cases]


def exact(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Causal attention with every score in memory."""
    hidden = torch.ones(q.shape[-2], q.shape[-2], dtype=torch.bool).triu(1)
    scores = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(hidden, -torch.inf)
    result: Tensor = scores.softmax(-1) @ v
    return result


@declares_check(
    "u06-backward",
    backward_cases,
    observer=backward,
    fallback="course_utils.reference.flash.flash_attention",
    give_away=("course_utils.reference.flash",),
)
def measured_backward(**case: Any) -> dict[str, Any]:
    """Gradients that autograd finds with all scores; bytes and FLOPs from the shapes.

    Two products for each visited tile in forward, five in backward.
    """
    inputs = inputs_of(case)
    result = exact(*inputs)
    gradients = gradients_of(result, inputs)
    block, seq_len = case["block"], case["seq_len"]
    sides = [min(block, seq_len - start) for start in range(0, seq_len, block)]
    pairs = sum(height * width for n, height in enumerate(sides) for width in sides[: n + 1])
    num_heads = inputs[0].shape[:-2].numel()
    product = 2 * num_heads * pairs * case["head_dim"]
    kept = inputs[0].numel() * 8 + num_heads * seq_len * 8
    given = {each.untyped_storage()._cdata: each.untyped_storage().nbytes() for each in inputs}
    returned = {name: each for name, each in zip(QKV, gradients, strict=False) if each is not None}
    return {
        **{f"d{name}_checksum": checksum(each, each) for name, each in returned.items()},
        "calls_of_forward": 1,
        "saved_bytes": sum(given.values()) + kept,
        "copied_bytes": kept,
        "forward_flops": 2 * product,
        "backward_flops": 5 * product,
        "result": result.detach(),
        "gradients": gradients,
    }


# === u06-merge
# Two partial results of attention put together.


MERGE_NAMES = ("scenario", "kind", "rows", "first_keys", "other_keys", "width")
MERGE_KINDS = {
    "ordinary": ("ordinary",),
    "extreme": ("high", "low", "far apart"),
    "empty": ("no key in the first", "no key in the other", "no key at all"),
}


def merge_cases(seed: int) -> list[Case]:
    """Every kind with more keys in the first part, and with more in the other."""
    rng = random.Random(seed)
    cases: list[tuple[Any, ...]] = [("ordinary", merge.BY_HAND, 1, 2, 1, 1)]
    for scenario, kinds in MERGE_KINDS.items():
        for number in range(7):
            few, many = rng.randint(1, 4), rng.randint(6, 12)
            keys = (few, many) if number % 2 else (many, few)
            sizes = (rng.randint(3, 6), *keys, rng.randint(2, 4))
            cases.append((scenario, kinds[number % len(kinds)], *sizes))
    return [named(MERGE_NAMES, case) for case in cases]


@declares_check(
    "u06-merge",
    merge_cases,
    observer=merge,
    scenarios=merge.SCENARIOS,
    fallback="course_utils.reference.online_softmax.merge",
    give_away=ANSWERS,
)
def measured_merge(**case: Any) -> dict[str, Any]:
    """Attention over all keys at once."""
    out, lse = attend_exactly(*merge.scores_and_values(case))
    return {
        "result_checksum": checksum(out, out),
        "lse_checksum": checksum(lse, lse),
        "out": out,
        "lse": lse,
    }
