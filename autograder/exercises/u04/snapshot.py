"""Check of a reader of memory snapshots, against the requests that a snapshot was written from.

What is right comes from the requests and from an allocator's levels; no snapshot is read for it.
"""

import random
from collections import Counter
from typing import Any

from torch import Tensor

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.exercises.model_answers import Edit, edited
from autograder.observing.u04 import snapshot
from autograder.observing.u04.snapshot import as_file
from course_utils.reference.allocator import CachingAllocator
from course_utils.reference.allocator_snapshot import snapshot_of, stacks_of

MIB = 2**20
NAMES = ("embed", "attend", "mlp", "loss", "adam", "")  # the last: autograd's own thread


def snapshot_cases(seed: int) -> list[Case]:
    """Recordings from the start and late; a peak reached twice; a new segment after the peak."""
    rng = random.Random(seed)
    worked: Case = {
        "script": [600, 1000, -1, 300],
        "functions": ["embed", "mlp", "mlp", "loss"],
        "recorded_from": 0,
    }
    made = [each(rng) for each in (_twice, _with_holes) for _ in range(2)]
    made += [_random(rng, number) for number in range(18)]
    return [{**case, "file": as_file(written(**case))} for case in [worked, *made]]


def written(script: list[int], functions: list[str], recorded_from: int) -> dict[str, Any]:
    """The snapshot of a script, each request by its function."""
    return snapshot_of(script, stacks_of(functions), recorded_from)


def _twice(rng: random.Random) -> Case:
    """A peak that is reached, left and reached again; in the end a whole segment is free.

    Who holds most at the first peak held more before, and holds less at the second.
    """
    small, large = rng.randint(600, 5000), rng.randint(12 * MIB, 30 * MIB)
    script = [1, small, -1, small + 7, 2 * small, large, -3, -5, large, small + 7, -6]
    first, second, others, last = rng.sample(NAMES[:-1], 4)
    at_first = [first, others, first, first, others, first]
    functions = [*at_first, first, first, second, last, second]
    return {"script": script, "functions": functions, "recorded_from": 0}


def _with_holes(rng: random.Random) -> Case:
    """Holes that are too small for the last request: a new segment comes after the peak.

    Most bytes of the peak have no frame, and who holds most of the others holds more later.
    """
    size = 2 * MIB - 512 * rng.randint(0, 9)
    script = [*[size] * 9, -1, -3, -5, 2 * size]
    most, other, another = rng.sample(NAMES[:-1], 3)
    functions = [*[""] * 5, most, most, other, another, *_functions(rng, 3), most]
    return {"script": script, "functions": functions, "recorded_from": 0}


def _random(rng: random.Random, number: int) -> Case:
    """Up to 40 requests; every second script is recorded from a third on."""
    script, live = list[int](), list[int]()
    num_requests = rng.randint(16, 40)
    late = num_requests // 3 if number % 2 else 0
    for at in range(num_requests):
        if live and at not in (late, num_requests - 1) and rng.random() < 0.45:
            script.append(-live.pop(rng.randrange(len(live))))
        else:
            script.append(rng.randint(1, rng.choice((2000, MIB // 2, 12 * MIB))))
            live.append(sum(request > 0 for request in script))
    functions = _functions(rng, num_requests)
    return {"script": script, "functions": functions, "recorded_from": late}


def _functions(rng: random.Random, count: int) -> list[str]:
    return [rng.choice(NAMES) for _ in range(count)]


def counted(
    script: list[int], functions: list[str], recorded_from: int, file: Tensor
) -> dict[str, int]:
    """The four numbers, counted while the requests are served; nothing of the file is read."""
    allocator = CachingAllocator()
    held: dict[int, tuple[str, int]] = {}
    num_events, reserved, peak, right = 0, 0, -1, {}
    for number, level in enumerate(allocator.play_script(script)):
        is_recorded, request = number >= recorded_from, script[number]
        if request > 0:
            block = sum(each > 0 for each in script[: number + 1])
            held[block] = (functions[number] if is_recorded else "", request)
            num_new = 1 + (level.reserved_bytes > reserved)
        else:
            held.pop(-request)
            num_new = 2
        reserved = level.reserved_bytes
        if is_recorded:
            num_events += num_new
            live = sum(num_bytes for _, num_bytes in held.values())
            if live > peak:
                peak, right = live, _at_peak(num_events - 1, held)
    return {**right, "trapped_bytes": allocator.levels.inactive_split_bytes}


def _at_peak(event: int, held: dict[int, tuple[str, int]]) -> dict[str, int]:
    by_function = Counter[str]()
    for name, num_bytes in held.values():
        by_function[name] += num_bytes
    by_function.pop("", None)  # without a frame, or allocated before the recording
    return {
        "peak_bytes": sum(num_bytes for _, num_bytes in held.values()),
        "peak_event": event,
        "holder_bytes": max(by_function.values(), default=0),
    }


START, ACTIONS = "in_use - sum(changes)", '"free_requested": -1}'
AT, UP_TO = "line.index(peak)", "events[: at + 1]"
FRAME = 'own[0]["name"]'
ANY = 'any(block["state"] == "active_allocated" for block in segment["blocks"])'
FREE = 'block["size"] for block in segment["blocks"] if block["state"] == "inactive"'
EDITS = (
    Edit(
        "Where recording begins late, your line begins too low. What was allocated before, and "
        "where does the snapshot still show it?",
        {START: "0"},
        points=1.5,
    ),
    Edit(
        "Your line begins with what is in use at the end. What have the events changed by then?",
        {START: "in_use"},
        points=1.5,
    ),
    Edit(
        "In your line a free counts twice. Which of its two events ends the use of a block?",
        {ACTIONS: '"free_requested": -1, "free_completed": -1}'},
        points=0.5,
    ),
    Edit(
        "In your line a segment counts as allocated. Who uses its bytes when it has just come "
        "from the device?",
        {ACTIONS: '"free_requested": -1, "segment_alloc": 1}'},
        points=0.5,
    ),
    Edit(
        "You count what is in use with its size rounded up. In which unit are the events' sizes?",
        {'block["requested_size"] for': 'block["size"] for'},
        points=1.5,
    ),
    Edit(
        "Where the peak is reached twice you name the later event. Which one does the exercise "
        "ask for?",
        {AT: "len(line) - 1 - line[::-1].index(peak)"},
        points=1.0,
    ),
    Edit(
        "Your index counts only allocations and frees. Which other events stand in the list?",
        {
            '"peak_event": at': '"peak_event": sum(e["action"] in sign for e in events[:at])',
        },
        points=1.5,
    ),
    Edit(
        "You ask which function holds most at the end. Which events come before the peak?",
        {UP_TO: "events"},
        points=1.5,
    ),
    Edit(
        "You add up by the innermost frame, which is often torch's. Which frame is the first of "
        "one's own code?",
        {FRAME: 'frames[0]["name"]'},
        points=1.5,
    ),
    Edit(
        "You add up by the outermost frame, so all blocks belong to one function. On which side "
        "of a stack is the function that allocates?",
        {FRAME: 'frames[-1]["name"]'},
        points=1.5,
    ),
    Edit(
        "You add up what no function of one's own holds as if one did. Whose are blocks without "
        "a frame?",
        {"if own:": "if True:", FRAME: 'own[0]["name"] if own else ""'},
        points=1.5,
    ),
    Edit(
        "You give the largest single block. How many blocks may one function hold at the peak?",
        {
            "max(held.values(), default=0)": 'max((event["size"] for event in live.values() if '
            'event["frames"]), default=0)'
        },
        points=1.5,
    ),
    Edit(
        "You add up all that a function ever allocated. Which of its blocks were freed before "
        "the peak?",
        {'live.pop(event["addr"], None)': "pass"},
        points=1.5,
    ),
    Edit(
        "You count wholly free segments as trapped. Could the allocator give those back?",
        {ANY: "True"},
        points=1.5,
    ),
    Edit(
        "You count only wholly free segments. Which free bytes cannot go back to the device?",
        {ANY: f"not {ANY}"},
        points=1.5,
    ),
    Edit(
        "You count what rounding adds to the blocks in use. In which state is a block that is "
        "free?",
        {
            FREE: 'block["size"] - block["requested_size"] for block in segment["blocks"] '
            'if block["state"] == "active_allocated"'
        },
        points=1.5,
    ),
)

CHECK = Check(
    cases=snapshot_cases,
    observe=snapshot.observe,
    judge=EqualTo(
        counted,
        *edited("u04-snapshot", EDITS, observe=snapshot.observe),
        questions={
            "peak_bytes": "Your line of allocated bytes is wrong. Write it down for the first "
            "example, event by event: which events change it, and with what does it begin?",
            "peak_event": "The peak is right, but not where it is. From which number on are the "
            "events of the list counted?",
            "holder_bytes": "Which blocks are in use right after the event of the peak, and whose "
            "are they?",
            "trapped_bytes": "Draw the segments at the end, block by block. Which free blocks have "
            "a neighbor in use in the same segment?",
        },
    ),
    answers=("course_utils.instruments.allocator_history.read_history",),
)
