"""The checks of unit 06 on what moves, and on tiles."""

import itertools
import random
from collections import Counter

import torch

from autograder.checking.exercise_check import Case, named
from autograder.exercises.declaring import declares_check
from course_utils.instruments import TwoLevelMemory
from course_utils.reference import tiled_attention

# === u06-traffic
# The traffic of two programs, against the machine that runs them.


TRAFFIC_NAMES = ("num_queries", "num_keys", "head_dim", "block_q", "block_k")
# One tile after the other of a head that no memory holds: more numbers than a float can count.
BEYOND_A_FLOAT = (2**28 + 1, 2**30 + 3, 2**22 + 1, 2**26, 2**29)


def traffic_cases(seed: int) -> list[Case]:
    """Whole and ragged tiles, one tile for all, few and many keys; one head beyond a float."""
    rng = random.Random(seed)
    times, short = rng.randint(2, 9), rng.randint(3, 8)
    sizes = [(2, 3, 1, 1, 2), (4 * times, 4 * times, 2, 4, 2), (6 * times, 3 * times, 3, 3, 3)]
    sizes.append((short, rng.randint(3, 7), 2, 9, 8))
    while len(sizes) < 21:
        sizes.append(
            (
                rng.randint(3, 24),
                rng.randint(3, 24),
                rng.randint(1, 9),
                rng.randint(3, 8),
                rng.randint(3, 8),
            )
        )
    sizes.append((17, 13, rng.randint(5, 30), 4, 3))
    num_queries, num_keys, head_dim, block_q, block_k = BEYOND_A_FLOAT
    sizes.append((num_queries + 4 * rng.randint(0, 99), num_keys, head_dim, block_q, block_k))
    return [named(TRAFFIC_NAMES, each) for each in sizes]


@declares_check(
    "u06-traffic", traffic_cases, fallback="course_utils.formulas.attention_tiles.attention_traffic"
)
def measured_traffic(
    num_queries: int, num_keys: int, head_dim: int, block_q: int, block_k: int
) -> dict[str, int]:
    """Loads and stores of both programs on a machine with sizes alone."""
    n, m, d = num_queries, num_keys, head_dim
    shapes = {
        "q": (n, d),
        "k": (m, d),
        "v": (m, d),
        "out": (n, d),
        "lse": (n,),
        "scores": (n, m),
        "weights": (n, m),
    }
    programs = {
        "q_outer": (tiled_attention.flash_forward, "q k v out lse"),
        "materialised": (tiled_attention.materialised_forward, "q k v scores weights out"),
    }
    moved = {}
    for name, (program, arrays) in programs.items():
        machine = TwoLevelMemory(device="meta")
        tensors = [torch.empty(shapes[each], device="meta") for each in arrays.split()]
        program(machine, [machine.slow(each) for each in tensors], block_q, block_k)
        moved[name] = machine.traffic_elements
    return moved


# === u06-causal-tiles
# How many tiles a causal mask leaves, against the mask itself.


CAUSAL_TILES_NAMES = ("num_queries", "num_keys", "block_q", "block_k")


def tile_cases(seed: int) -> list[Case]:
    """Square, tall and wide tiles; as many keys as queries, and more; one query; one tile."""
    rng = random.Random(seed)
    whole, few = 16 * rng.randint(3, 9), rng.randint(3, 19)
    sizes = [(5, 5, 2, 2), (2, rng.randint(5, 30), 2, 2), (whole, whole, 16, 16)]
    sizes += [(1, rng.randint(25, 60), 4, 5), (few, few, 20, 30)]
    for number in range(18):
        n = rng.randint(12, 90)
        more = 0 if number % 2 else rng.randint(1, 60)
        block_q, block_k = rng.randint(2, 9), rng.randint(2, 9)
        sizes.append((n, n + more, block_q, block_q if number % 6 == 5 else block_k))
    sizes.append((512, 2048 + rng.randint(0, 99), 64, 32))
    return [named(CAUSAL_TILES_NAMES, each) for each in sizes]


@declares_check(
    "u06-causal-tiles", tile_cases, fallback="course_utils.formulas.attention_tiles.visited_tiles"
)
def counted_causal_tiles(num_queries: int, num_keys: int, block_q: int, block_k: int) -> int:
    """Tiles of the mask in which some pair is open."""
    mask = torch.ones(num_queries, num_keys, dtype=torch.bool).tril(num_keys - num_queries)
    corners = itertools.product(range(0, num_queries, block_q), range(0, num_keys, block_k))
    return sum(bool(mask[i : i + block_q, j : j + block_k].any()) for i, j in corners)


# === u06-document-tiles
# The tiles that a mask of packed documents leaves, pair by pair.


def document_cases(seed: int) -> list[Case]:
    """One document and several, short ones and long ones; ragged ends."""
    rng = random.Random(seed)
    cases: list[tuple[list[int], int]] = [([3, 5], 2), ([4 * rng.randint(2, 20)], 4)]
    cases += [([4 * rng.randint(1, 9) for _ in range(3)], 4), ([1] * rng.randint(7, 30), 3)]
    while len(cases) < 22:
        block = rng.randint(2, 7)
        lengths = [rng.randint(1, 4 * block) for _ in range(rng.randint(2, 5))]
        cases.append((lengths, block))
    return [{"document_lengths": lengths, "block": block} for lengths, block in cases]


@declares_check(
    "u06-document-tiles",
    document_cases,
    fallback="course_utils.formulas.attention_tiles.document_tiles",
)
def counted_document_tiles(document_lengths: list[int], block: int) -> dict[str, int]:
    """Open pairs of every tile, one by one."""
    pairs: Counter[tuple[int, int]] = Counter()
    start = 0
    for length in document_lengths:
        for query in range(start, start + length):
            pairs.update((query // block, key // block) for key in range(start, query + 1))
        start += length
    sides = [min(block, start - first) for first in range(0, start, block)]
    full = sum(count == sides[row] * sides[column] for (row, column), count in pairs.items())
    return {"full": full, "partial": len(pairs) - full}
