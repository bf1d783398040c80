"""Check of how many tiles a causal mask leaves, against the mask itself."""

import itertools
import random

import torch

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.exercises.model_answers import mistakes_of

NAMES = ("num_queries", "num_keys", "block_q", "block_k")


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
    return [dict(zip(NAMES, each, strict=True)) for each in sizes]


def counted(num_queries: int, num_keys: int, block_q: int, block_k: int) -> int:
    """Tiles of the mask in which some pair is open."""
    mask = torch.ones(num_queries, num_keys, dtype=torch.bool).tril(num_keys - num_queries)
    corners = itertools.product(range(0, num_queries, block_q), range(0, num_keys, block_k))
    return sum(bool(mask[i : i + block_q, j : j + block_k].any()) for i, j in corners)


CHECK = Check(
    cases=tile_cases,
    judge=EqualTo(counted, *mistakes_of("u06-causal-tiles")),
    fallback="course_utils.formulas.attention_tiles.visited_tiles",
)
