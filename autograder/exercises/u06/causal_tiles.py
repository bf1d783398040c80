"""Check of how many tiles a causal mask leaves, against the mask itself."""

import itertools
import random

import torch

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.exercises.model_answers import Edit, edited

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


# Places of the model answer.
EARLIER, SEEN = "num_keys - num_queries", "min(start + block_q, num_queries) + earlier"
TILES, RETURN = "-(-seen // block_k)", "return tiles"
ALL_TILES = "-(-num_queries // block_q) * -(-num_keys // block_k)"

EDITS = (
    Edit(
        "Right where there are as many keys as queries. Which keys does the last query see, and "
        "which the first?",
        {EARLIER: "0"},
    ),
    Edit(
        "Those are all tiles. Which of them hold no pair that may meet?",
        {RETURN: f"return {ALL_TILES}"},
    ),
    Edit(
        "That is half of all tiles. Which of those on the diagonal does half a tile leave out?",
        {RETURN: f"return {ALL_TILES} // 2"},
    ),
    *(
        Edit(
            "A triangle of tiles is right where they are square and divide everything. How many "
            "tiles of keys does each row of tiles reach here?",
            {RETURN: f"num = -(-num_queries // block_q)\n    return {triangle}"},
        )
        for triangle in ("num * (num + 1) // 2", f"{ALL_TILES} - num * (num - 1) // 2")
    ),
    Edit(
        "In your count, each row of tiles reaches one tile further than the last. How many keys "
        "further does it reach, and how many tiles are that?",
        {
            TILES: "min(start // block_q + 1 + -(-earlier // block_k), -(-num_keys // block_k))",
        },
    ),
    Edit(
        "Tiles on the diagonal are missing. Does such a tile hold a pair that may meet?",
        {SEEN: "start + earlier"},
    ),
    Edit(
        "The last query of a tile sees itself. How many keys is that, counted from the first?",
        {SEEN: "min(start + block_q, num_queries) + earlier - 1"},
    ),
    Edit(
        "The first query of a tile sees fewer keys than the last. Which of them decides whether a "
        "tile is visited?",
        {SEEN: "start + 1 + earlier"},
    ),
    Edit(
        "Tiles that are seen in part are missing. Is a tile visited of which one key is seen?",
        {TILES: "seen // block_k"},
    ),
    Edit(
        "Too many where the last tile of queries is short. How many queries has it?",
        {SEEN: "start + block_q + earlier"},
    ),
    Edit(
        "Those are pairs of a query and a key. How many of them lie in one tile?",
        {
            RETURN: "return sum(i + 1 + earlier for i in range(num_queries))",
        },
    ),
)

CHECK = Check(
    cases=tile_cases,
    judge=EqualTo(counted, *edited("u06-causal-tiles", EDITS)),
    fallback="course_utils.formulas.attention_tiles.visited_tiles",
)
