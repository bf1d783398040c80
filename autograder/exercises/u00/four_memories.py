"""Check of four numbers for one process: saved, allocated, reserved, driver."""

import operator
import random
from collections.abc import Mapping
from itertools import accumulate

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.exercises.model_answers import mistakes_of

SAVED = "saved_for_backward"
OTHERS = ("parameters", "gradients", "optimizer_states", "temporaries")


def memory_cases(seed: int) -> list[Case]:
    """Any categories in any order, some empty, some equally large; with and without a cache.

    The largest numbers are odd and beyond a float. At the end each size is changed by itself.
    """
    rng = random.Random(seed)

    def live(names: list[str]) -> dict[str, int]:
        rng.shuffle(names)
        return {name: rng.choice((0, rng.randint(1, 2**36))) for name in names}

    def case(live_bytes: dict[str, int], cached_bytes: int, outside_bytes: int = 0) -> Case:
        outside = outside_bytes or rng.randint(2**28, 2**31)
        return {"live_bytes": live_bytes, "cached_bytes": cached_bytes, "outside_bytes": outside}

    full = {name: rng.randint(1, 2**36) for name in (*OTHERS, SAVED)}
    as_large = full | {"gradients": full["parameters"], "temporaries": full[SAVED]}
    even = {name: 2 * rng.randrange(2**57, 2**58) for name in (*full, "cached", "outside")}
    cached, outside = even.pop("cached"), even.pop("outside")
    one_at_a_time: list[Case] = [
        case(full, rng.randint(1, 2**34)),
        {"live_bytes": as_large},
        {"cached_bytes": rng.randint(1, 2**34)},
        {"outside_bytes": rng.randint(2**28, 2**31)},
    ]
    return [
        case({"parameters": 100, SAVED: 40}, 10, 500),
        case({SAVED: rng.randint(1, 2**36), "temporaries": rng.randint(1, 2**36)}, 2**20),
        case({"parameters": rng.randint(1, 2**36), SAVED: 0}, 0),
        {"live_bytes": full, "cached_bytes": 0, "outside_bytes": 0},
        case(even | {SAVED: even[SAVED] + 1}, cached, outside),
        *(
            case(live([SAVED, *rng.sample(OTHERS, count)]), rng.choice((0, rng.randint(1, 2**34))))
            for count in (0, 1, 2, 3, 4)
            for _ in range(4)
        ),
        *accumulate(one_at_a_time, operator.or_),
    ]


def counted_memories(
    live_bytes: Mapping[str, int], cached_bytes: int, outside_bytes: int
) -> dict[str, int]:
    """The four numbers, counted item by item over all that the driver sees."""
    items = [("outside", outside_bytes), ("cached", cached_bytes), *live_bytes.items()]
    counted = dict.fromkeys(("saved_bytes", "allocated_bytes", "reserved_bytes", "driver_bytes"), 0)
    for name, num_bytes in items:
        counted["driver_bytes"] += num_bytes
        counted["reserved_bytes"] += num_bytes if name != "outside" else 0
        counted["allocated_bytes"] += num_bytes if name in live_bytes else 0
        counted["saved_bytes"] += num_bytes if name == SAVED else 0
    return counted


CHECK = Check(
    cases=memory_cases, judge=EqualTo(counted_memories, *mistakes_of("u00-four-memories"))
)
