"""Check of a script that fragments memory, played on the course's allocator."""

import random
from collections.abc import Callable
from typing import Any

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo, Mistake
from autograder.exercises.u04.shared.allocator_scripts import Script
from course_utils.reference.allocator import CachingAllocator
from course_utils.reference.allocator_replay import MIB

MAX_REQUESTS = 1000
WAYS_TO_MISS = (
    "too_many_requests",
    "impossible_requests",
    "refused_too_early",
    "too_little_free",
    "last_is_served",
)


def fragment(device_bytes: int) -> Script:
    """The course's own answer: half of every segment of the small pool stays in use."""
    num_blocks = device_bytes // MIB
    return [MIB] * num_blocks + [-number for number in range(1, num_blocks + 1, 2)]


def fragment_cases(seed: int) -> list[Case]:
    """Devices of 40 MiB to 400 MiB."""
    rng = random.Random(seed)
    sizes = [40, 60, 80, 100, 200, 400, *(20 * rng.randint(2, 20) for _ in range(14))]
    return [{"device_bytes": MIB * size} for size in sizes]


def observe_fragment(answer: Any, case: Case) -> object:
    """How the student's script misses its goal, if it does, on the course's allocator."""
    way = _way_to_miss(answer(case["device_bytes"]), case["device_bytes"])
    return {each: int(each == way) for each in WAYS_TO_MISS}


def _way_to_miss(script: Any, device_bytes: int) -> str:
    if not isinstance(script, list) or len(script) > MAX_REQUESTS:
        return "too_many_requests"
    allocator = CachingAllocator(device_bytes)
    try:
        allocator.play_script(script)
    except (ValueError, TypeError):
        return "impossible_requests"
    except MemoryError:
        return "refused_too_early"
    if 2 * allocator.levels.allocated_bytes > device_bytes:
        return "too_little_free"
    try:
        allocator.allocate("the last", device_bytes // 4)
    except MemoryError:
        return ""
    return "last_is_served"


def _missed(way: str) -> Callable[[int], dict[str, int]]:
    return lambda device_bytes: {way: 1}


CHECK = Check(
    cases=fragment_cases,
    reference=fragment,
    observe=observe_fragment,
    judge=EqualTo(
        lambda device_bytes: dict.fromkeys(WAYS_TO_MISS, 0),
        Mistake(
            "It is no list, or one of more than 1,000 requests. How large may your blocks be, and "
            "how many of them fill the device?",
            _missed("too_many_requests"),
        ),
        Mistake(
            "A request in it cannot be: a block is freed that is not in use, or nothing is asked "
            "for. From which number on are the blocks of a script counted?",
            _missed("impossible_requests"),
        ),
        Mistake(
            "The device is full before your script ends. Into which segments do your blocks go, "
            "and how much of each is left over?",
            _missed("refused_too_early"),
        ),
        Mistake(
            "When your script is over, less than half of the device is free. How many of the "
            "blocks are still in use, and of how many bytes?",
            _missed("too_little_free"),
        ),
        Mistake(
            "The last request is served. Free neighbours are joined, and a segment that is free "
            "altogether goes back to the device: which blocks must stay in use to prevent both?",
            _missed("last_is_served"),
        ),
        Mistake(
            "Each of your blocks is a segment of its own, and one that is free altogether goes "
            "back to the device. How small must blocks be so that several share a segment?",
            lambda device_bytes: {
                _way_to_miss([device_bytes // 4] * 4 + [-1, -3], device_bytes): 1
            },
        ),
        together=True,
    ),
)
