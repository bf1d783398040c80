"""Check of the peak of a memory line, from the births and deaths of storages."""

import random
from collections.abc import Callable, Iterable
from itertools import accumulate

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo, Mistake

Storage = tuple[int, int | None, int]
"""When it was born, when it died or None, its bytes."""

WORKED: list[Storage] = [(0, None, 60), (1, 4, 24), (3, 6, 40)]


def line_cases(seed: int) -> list[Case]:
    """Peaks at the start, inside, at the end, and twice; deaths along with births or at the end."""
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
    made += [_random_storages(rng) for _ in range(8)]
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
    return _of_line(_counted(storages, range(num_operations + 1)))


def _counted(storages: list[Storage], operations: Iterable[int]) -> list[int]:
    """Live bytes at each operation."""
    return [
        sum(size for born, died, size in storages if born <= at and (died is None or at < died))
        for at in operations
    ]


def _of_line(line: list[int]) -> dict[str, int]:
    return {
        "peak_bytes": max(line),
        "operation": line.index(max(line)),
        "end_bytes": line[-1],
    }


def peak(storages: list[Storage], num_operations: int) -> dict[str, int]:
    """The course's own answer, under the name that the exercise asks for."""
    return _of_line(list(accumulate(_changes(storages, num_operations))))


def _changes(storages: list[Storage], num_operations: int) -> list[int]:
    """What each operation adds minus what it frees."""
    changes = [0] * (num_operations + 2)
    for born, died, size in storages:
        changes[born] += size
        if died is not None:
            changes[died] -= size
    return changes[:-1]


def _moved(change: Callable[[Storage, int], Storage]) -> Callable[..., dict[str, int]]:
    """The numbers of storages that are born or die at another operation."""
    return lambda storages, last: counted_peak([change(each, last) for each in storages], last)


def _last_highest(storages: list[Storage], num_operations: int) -> dict[str, int]:
    line = _counted(storages, range(num_operations + 1))
    return {"operation": num_operations - line[::-1].index(max(line))}


def _from_one(storages: list[Storage], num_operations: int) -> dict[str, int]:
    line = _counted(storages, range(1, num_operations + 1))
    return _of_line(line) | {"operation": line.index(max(line)) + 1}


CHECK = Check(
    cases=line_cases,
    reference=peak,
    judge=EqualTo(
        counted_peak,
        Mistake(
            "A storage still counts with you at the operation where it died. Who may have its "
            "bytes by then?",
            _moved(lambda each, last: (each[0], each[1] and each[1] + 1, each[2])),
        ),
        Mistake(
            "Your storages are live only from the operation after the one that made them. Where "
            "does a result lie while it is written?",
            _moved(lambda each, last: (each[0] + 1, each[1], each[2])),
        ),
        Mistake(
            "What never died is gone at your last operation. What does None say about it?",
            _moved(lambda each, last: (each[0], each[1] or last, each[2])),
        ),
        Mistake(
            "What never died counts nowhere. What does None say about it?",
            _moved(lambda each, last: each if each[1] else (each[0], each[0], each[2])),
        ),
        Mistake(
            "Nothing ever dies with you. What does the second number of a storage say?",
            _moved(lambda each, last: (each[0], None, each[2])),
        ),
        Mistake(
            "Where the line is highest twice you name the second operation. Which one does the "
            "exercise ask for?",
            _last_highest,
        ),
        Mistake(
            "Your line begins with operation 1. What is live before any operation has run?",
            _from_one,
        ),
        Mistake(
            "Your line ends one operation early. Which one is the last?",
            lambda storages, last: counted_peak(storages, last - 1),
        ),
        Mistake(
            "Your operation is one too large. What is the number of the entry before the first "
            "operation?",
            lambda storages, last: {"operation": counted_peak(storages, last)["operation"] + 1},
        ),
        Mistake(
            "At the end you count only what never died. Which storages are still live at the last "
            "operation and freed after it?",
            lambda storages, last: {
                "end_bytes": sum(size for _, died, size in storages if died is None)
            },
        ),
        Mistake(
            "Your line holds what each operation adds and takes away. What is there already from "
            "the operations before?",
            lambda storages, last: _of_line(_changes(storages, last)),
        ),
        Mistake(
            "Your peak is the largest storage alone. What else is live beside it?",
            lambda storages, last: {"peak_bytes": max(size for _, _, size in storages)},
        ),
        Mistake(
            "Your end is the peak. What has been freed since then?",
            lambda storages, last: {"end_bytes": counted_peak(storages, last)["peak_bytes"]},
        ),
    ),
)
