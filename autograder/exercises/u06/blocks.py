"""Check of the tile that moves least in a fast memory, by trying them all."""

import random

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.exercises.model_answers import mistakes_of

NAMES = ("num_queries", "head_dim", "capacity", "block_k")


def block_cases(seed: int) -> list[Case]:
    """Memories for one query, for some, for all, some just large enough; heads of any width."""
    rng = random.Random(seed)
    sizes = [(300, 16, 4096, 16), (rng.randint(60, 99), 4, 2000, 8)]
    sizes += [(rng.randint(40, 60), 8, 4000, 16), (rng.randint(30, 60), 3, 100, 2)]
    for _ in range(18):
        d, block_k, rows = rng.randint(2, 32), rng.randint(2, 24), rng.randint(3, 90)
        capacity = block_k * d + rows * (2 * d + block_k + 3) + rng.randint(0, 2 * d + block_k)
        sizes.append((rng.randint(rows, 6 * rows), d, capacity, block_k))
    d, block_k, rows = rng.randint(2, 32), rng.randint(2, 24), rng.randint(30, 60)
    filled = block_k * d + rows * (2 * d + block_k + 3)  # to the last number
    sizes += [(rng.randint(2, 5) * rows, d, filled, block_k), (1, d, 2 * filled, block_k)]
    return [dict(zip(NAMES, each, strict=True)) for each in sizes]


def searched(num_queries: int, head_dim: int, capacity: int, block_k: int) -> int:
    """The smallest of the tiles with the least traffic, among all that fit."""
    least: tuple[int, int] | None = None
    for block_q in range(1, num_queries + 1):
        rows = [block_q * head_dim] * 2 + [block_q] * 3  # queries, sums; three numbers a row
        if sum(rows) + block_k * head_dim + block_q * block_k > capacity:
            break
        turns = len(range(0, num_queries, block_q))
        if least is None or turns < least[0]:
            least = turns, block_q
    return least[1] if least else 0


CHECK = Check(
    cases=block_cases,
    judge=EqualTo(searched, *mistakes_of("u06-blocks")),
    fallback="course_utils.formulas.attention_tiles.best_block_q",
)
