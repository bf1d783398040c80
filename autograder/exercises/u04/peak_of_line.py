"""Check of the peak of a memory line, from the births and deaths of storages."""

import random

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.exercises.model_answers import mistakes_of

Storage = tuple[int, int | None, int]
"""When it was born, when it died or None, its bytes."""

WORKED: list[Storage] = [(0, None, 60), (1, 4, 24), (3, 6, 40)]


def line_cases(seed: int) -> list[Case]:
    """Peaks at the start, inside, at the end, and twice; deaths along with births or at the end.

    One has more bytes than a float counts, and one has no storages.
    """
    rng = random.Random(seed)
    made = [(WORKED, 5)]
    for scale in (4 * rng.randint(1, 9), 4 * rng.randint(10, 99), 4 * rng.randint(100, 9_999)):
        last = rng.randint(5, 9)
        made += [
            ([(0, None, 3 * scale), (0, 1, 5 * scale), (2, 4, scale)], last),
            ([(0, None, 2 * scale), (1, 3, 4 * scale), (3, 5, 4 * scale)], last),
            ([(0, None, scale), (1, 3, 4 * scale), (4, 5, 4 * scale)], last),
            ([(0, None, scale), (2, last + 1, 2 * scale), (last, last + 1, 7 * scale)], last),
            ([(0, 2, scale), (1, None, 2 * scale), (last, None, 3 * scale)], last),
        ]
    made += [_random_storages(rng) for _ in range(7)]
    huge = 2**53 + 2 * rng.randint(1, 999) + 1
    made.append(([(0, None, huge), (1, 3, 2 * huge), (2, 4, huge // 4)], 4))
    made.append(([], rng.randint(3, 9)))
    return [{"storages": storages, "num_operations": last} for storages, last in made]


def _random_storages(rng: random.Random) -> tuple[list[Storage], int]:
    last = rng.randint(6, 14)
    storages: list[Storage] = [(0, None, 4 * rng.randint(1, 50))]
    for _ in range(rng.randint(3, 8)):
        born = rng.randint(0, last)
        died = rng.choice((None, rng.randint(born + 1, last + 1), rng.randint(born + 1, last + 1)))
        storages.append((born, died, 4 * rng.randint(1, 99)))
    return storages, last


def counted_peak(storages: list[Storage], num_operations: int) -> dict[str, int]:
    """The same three numbers, counted over all storages at every operation."""
    line = [
        sum(size for born, died, size in storages if born <= at and (died is None or at < died))
        for at in range(num_operations + 1)
    ]
    return {"peak_bytes": max(line), "operation": line.index(max(line)), "end_bytes": line[-1]}


CHECK = Check(
    cases=line_cases,
    judge=EqualTo(counted_peak, *mistakes_of("u04-peak-of-line")),
    fallback="course_utils.formulas.memory_over_time.peak_of_storages",
)
