"""Check of the tiles that a mask of packed documents leaves, pair by pair."""

import random
from collections import Counter

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.exercises.model_answers import mistakes_of


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


CHECK = Check(
    cases=document_cases,
    judge=EqualTo(counted, *mistakes_of("u06-document-tiles")),
    fallback="course_utils.formulas.attention_tiles.document_tiles",
)
