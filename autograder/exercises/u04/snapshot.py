"""The check of unit 04 on snapshots of memory."""

import random
from collections import Counter
from typing import Any

from torch import Tensor

from autograder.checking.exercise_check import Case
from autograder.checking.judges import ValueJudge
from autograder.exercises.declaring import declares_check
from autograder.observers.u04 import snapshot
from autograder.observers.u04.snapshot import as_file
from course_utils.reference.allocator import CachingAllocator
from course_utils.reference.allocator_replay import MIB
from course_utils.reference.allocator_snapshot import snapshot_of, stacks_of

# === u04-snapshot
# A reader of memory snapshots, against the requests that a snapshot was written from.
#
# What is right comes from the requests and from an allocator's levels; no snapshot is read for it.


FUNCTIONS = ("embed", "attend", "mlp", "loss", "adam", "")  # the last: autograd's own thread


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
    first, second, others, last = rng.sample(FUNCTIONS[:-1], 4)
    at_first = [first, others, first, first, others, first]
    functions = [*at_first, first, first, second, last, second]
    return {"script": script, "functions": functions, "recorded_from": 0}


def _with_holes(rng: random.Random) -> Case:
    """Holes that are too small for the last request: a new segment comes after the peak.

    Most bytes of the peak have no frame, and who holds most of the others holds more later.
    """
    size = 2 * MIB - 512 * rng.randint(0, 9)
    script = [*[size] * 9, -1, -3, -5, 2 * size]
    most, other, another = rng.sample(FUNCTIONS[:-1], 3)
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
    return [rng.choice(FUNCTIONS) for _ in range(count)]


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


@declares_check(
    "u04-snapshot",
    snapshot_cases,
    observer=snapshot,
    judge=ValueJudge,
    give_away=("course_utils.instruments.allocator_history.read_history",),
)
def counted(
    script: list[int], functions: list[str], recorded_from: int, file: Tensor
) -> dict[str, int]:
    """The four numbers, counted while the requests are served; nothing of the file is read."""
    allocator = CachingAllocator()
    held: dict[int, tuple[str, int]] = {}
    num_events, reserved, peak, right = 0, 0, -1, {}
    for number, level in enumerate(allocator.play_script(script)):
        # An allocation is one event, and two with a new segment; a free is requested and completed,
        # which is two.
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
