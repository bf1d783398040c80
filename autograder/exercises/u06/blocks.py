"""Check of the tile that moves least in a fast memory, by trying them all."""

import random

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.exercises.model_answers import Edit, edited

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


# Places of the model answer.
ROOM, PER_ROW = "capacity - block_k * head_dim", "2 * head_dim + block_k + 3"
LARGEST = f"({ROOM}) // ({PER_ROW})"
BEST = "-(-num_queries // num_tiles)"


def _whatever_the_turns(hint: str, *largest: str) -> list[Edit]:
    """A wrong number of queries that fit: with the last step, cut at all queries, and alone."""
    lasts: tuple[dict[str, str], ...] = ({}, {BEST: "min(largest, num_queries)"}, {BEST: "largest"})
    return [Edit(hint, {LARGEST: each, **last}) for each in largest for last in lasts]


EDITS = (
    Edit(
        "That is the tallest tile that fits. Which smaller one needs as many turns?",
        {BEST: "min(largest, num_queries)"},
    ),
    Edit(
        "That is the tallest tile that fits. With how many queries is the last one filled, and "
        "which smaller tile needs as many turns?",
        {BEST: "largest"},
    ),
    *_whatever_the_turns(
        "M / 4d is the paper's choice, for four tiles of one size. Which tiles lie in this memory, "
        "and how large is each?",
        *("capacity // (4 * head_dim)", "-(-capacity // (4 * head_dim))"),
        "min(-(-capacity // (4 * head_dim)), head_dim)",
    ),
    *_whatever_the_turns(
        "A quarter of the memory has room for so many numbers, not queries. How many numbers does "
        "each query of a tile need?",
        "capacity // 4",
    ),
    *_whatever_the_turns(
        "An eighth of the memory has room for so many numbers, not queries. How many numbers does "
        "each query of a tile need?",
        "capacity // 8",
    ),
    *(
        edit
        for part, num_bytes in (("half", 2), ("a quarter", 4), ("an eighth", 8))
        for edit in _whatever_the_turns(
            f"You fill {part} of the memory. Is the capacity given in bytes or in numbers?",
            f"max(1, (capacity // {num_bytes} - block_k * head_dim) // ({PER_ROW}))",
        )
    ),
    Edit(
        "A square root would be right if scores took all the room. What else grows with the "
        "queries in a tile?",
        {LARGEST: "int(capacity**0.5)"},
    ),
    Edit(
        "There are fewer queries than your tile holds. How many of its rows would stay empty?",
        {BEST: f"largest if largest > num_queries else {BEST}"},
    ),
    Edit(
        "With so few queries in a tile some are left over. How many turns do they need?",
        {BEST: "num_queries // num_tiles"},
    ),
    Edit(
        "A tile that fills the memory to the last number is too large for you. Does it fit?",
        {ROOM: "capacity - 1 - block_k * head_dim"},
    ),
    Edit("Where do the keys of a tile lie?", {ROOM: "capacity"}),
    Edit(
        "You give keys and values room each. Does the exercise want both there at once?",
        {ROOM: "capacity - 2 * block_k * head_dim"},
    ),
    Edit(
        "Two arrays have a row of d numbers for each query of a tile. Which one besides the "
        "queries?",
        {PER_ROW: "head_dim + block_k + 3"},
    ),
    Edit("Where does the tile of scores lie?", {PER_ROW: "2 * head_dim + 3"}),
    Edit(
        "Three single numbers belong to each query of a tile. Do they take no room?",
        {PER_ROW: "2 * head_dim + block_k"},
    ),
    Edit(
        "That is how many tiles there are. How many queries has each?",
        {BEST: "num_tiles"},
    ),
)

CHECK = Check(
    cases=block_cases,
    judge=EqualTo(searched, *edited("u06-blocks", EDITS)),
    fallback="course_utils.formulas.attention_tiles.best_block_q",
)
