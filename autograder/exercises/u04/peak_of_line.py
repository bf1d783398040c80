"""Check of the peak of a memory line, from the births and deaths of storages."""

import random

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.exercises.model_answers import Edit, edited

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


LIVE = "born <= operation, died is not None and died <= operation"
OPERATIONS, OPERATION, END = (
    "range(num_operations + 1)",
    "line.index(highest)",
    "line[num_operations]",
)
WITHOUT_ZERO = {OPERATIONS: "range(1, num_operations + 1)", END: "line[-1]"}
FROM_ONE = "Your line begins with operation 1. What is live before any operation has run?"
EDITS = (
    Edit(
        "You still count a storage at the operation where it died. Who may have its bytes by then?",
        {LIVE: "born <= operation, died is not None and died < operation"},
    ),
    Edit(
        "Your storages are live only from the operation after the one that made them. Where does a "
        "result lie while it is written?",
        {LIVE: "born < operation, died is not None and died <= operation"},
    ),
    Edit(
        "A storage that never died is gone at your last operation. What does None say about it?",
        {LIVE: "born <= operation, (num_operations if died is None else died) <= operation"},
    ),
    Edit(
        "You never count a storage that never died. What does None say about it?",
        {LIVE: "born <= operation, died is None or died <= operation"},
    ),
    Edit(
        "In your line nothing ever dies. What does the second number of a storage say?",
        {LIVE: "born <= operation, False"},
    ),
    Edit(
        "Where the line is highest twice you name the second operation. Which one does the "
        "exercise ask for?",
        {OPERATION: "num_operations - line[::-1].index(highest)"},
        points=1.0,
    ),
    Edit(FROM_ONE, WITHOUT_ZERO | {OPERATION: f"1 + {OPERATION}"}, points=0.5),
    Edit(FROM_ONE, WITHOUT_ZERO, points=0.5),
    Edit(
        "Your line ends one operation early. Which one is the last?",
        {OPERATIONS: "range(num_operations)", END: "line[-1]"},
    ),
    Edit(
        "Your operation is one too large. What is the number of the entry before the first "
        "operation?",
        {OPERATION: f"1 + {OPERATION}"},
        points=1.0,
    ),
    Edit(
        "At the end you count only storages that never died. Which others are still live at the "
        "last operation, and freed after it?",
        {END: "sum(num_bytes for _, died, num_bytes in storages if died is None)"},
        points=1.0,
    ),
    Edit(
        "Your line holds what each operation adds and takes away. What is there already from the "
        "operations before?",
        {
            "if is_born and not is_dead:": "if born == operation or died == operation:",
            "+= num_bytes": "+= num_bytes if born == operation else -num_bytes",
        },
    ),
    Edit(
        "At each operation you have the bytes of one storage, the last that is live. What else "
        "is live then?",
        {"+= num_bytes": "= num_bytes"},
    ),
    Edit(
        "You count storages that are dead already, and no live ones. When does a storage hold "
        "its bytes?",
        {"not is_dead": "is_dead"},
    ),
    Edit(
        "Your peak is the largest storage alone. What else is live beside it?",
        {'"peak_bytes": highest': '"peak_bytes": max([0, *(n for _, _, n in storages)])'},
        points=1.0,
    ),
    Edit(
        "Your operation is the one that makes the largest storage. Is the most live where the "
        "largest is born?",
        {OPERATION: "max([(0, 0, 0), *storages], key=lambda each: each[2])[0]"},
        points=1.0,
    ),
    Edit("Your end is the peak. What has been freed since then?", {END: "highest"}, points=1.0),
)

CHECK = Check(
    cases=line_cases,
    judge=EqualTo(counted_peak, *edited("u04-peak-of-line", EDITS)),
    fallback="course_utils.formulas.memory_over_time.peak_of_storages",
)
