"""Check of the tiles that a mask of packed documents leaves, pair by pair."""

import random
from collections import Counter

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.exercises.model_answers import Edit, edited


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


def counted(document_lengths: list[int], block: int) -> dict[str, int]:
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


# Places of the model answer.
SAME, MASK = "owner[:, None] == owner", "(owner[:, None] == owner).tril()"
ROWS, PARTIAL = "for i in range(0, len(owner), block)", "tile.any()"

EDITS = (
    Edit(
        "You take two documents of one length for the same one. What tells them apart?",
        {"torch.arange(len(lengths))": "lengths"},
    ),
    Edit(
        "In your version, a query sees later keys of its own document. Which half of the mask is "
        "allowed?",
        {MASK: f"({SAME})"},
    ),
    Edit(
        "Queries see the documents before their own. Where does your mask know whose key it is?",
        {SAME: "owner[:, None] >= owner"},
    ),
    Edit(
        "In your version, a token does not see itself. Is the diagonal allowed?",
        {MASK: f"({SAME}).tril(-1)"},
    ),
    Edit(
        "The tiles at the end are missing. How long is the last one?",
        {ROWS: "for i in range(0, len(owner) - block + 1, block)"},
    ),
    Edit(
        "You count every tile on the diagonal as partial. What is allowed in one of a single query "
        "and a single key?",
        {"if tile.all():": "if tile.all() and i != j:"},
    ),
    Edit(
        "You count a tile on the diagonal as full if it lies in one document. Which half of it "
        "does the causal mask hide?",
        {"if tile.all():": f"if ({SAME})[i : i + block, j : j + block].all() and j <= i:"},
    ),
    Edit(
        "You count smaller tiles at the end as partial. How many pairs has the last one?",
        {"if tile.all():": "if tile.sum() == block * block:"},
    ),
    Edit(
        "Full tiles are counted twice. Is a tile with every pair allowed also partial?",
        {'"partial": partial': '"partial": partial + full'},
        points=0.75,
    ),
    Edit(
        "Which tiles need no mask at all, and under which key do you count them?",
        {'"full": full, "partial": partial': '"full": partial, "partial": full'},
    ),
    Edit(
        "Those are tiles with no allowed pair. Which tiles does a kernel visit?",
        {f"elif {PARTIAL}:": f"elif not {PARTIAL}:"},
        points=0.75,
    ),
)

CHECK = Check(
    cases=document_cases,
    judge=EqualTo(counted, *edited("u06-document-tiles", EDITS)),
    fallback="course_utils.formulas.attention_tiles.document_tiles",
)
