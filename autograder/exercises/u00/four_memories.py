"""Check of four numbers for one process: saved, allocated, reserved, driver."""

import operator
import random
from collections.abc import Mapping
from itertools import accumulate

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.exercises.model_answers import Edit, edited

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


KEPT, LIVE = 'live_bytes["saved_for_backward"]', "sum(live_bytes.values())"
RESERVED = "live + cached_bytes,"
DRIVER = "live + cached_bytes + outside_bytes"
ONLY_SOME = (
    "Your saved_bytes counts tensors that autograd does not keep. Which category does it keep?"
)
MISSING = (
    "Your reserved_bytes counts only the free blocks. Which other blocks does the allocator hold?"
)
ONE_IN_ANOTHER = (
    "You count something twice: each memory already includes the next smaller one. Which term "
    "does yours already include?"
)
EDITS = (
    Edit(ONLY_SOME, {KEPT: "live"}, points=1.5),
    Edit(ONLY_SOME, {KEPT: f"live - {KEPT}"}, points=1.5),
    Edit(ONLY_SOME, {KEPT: 'live - live_bytes.get("parameters", 0)'}, points=1.5),
    Edit(ONLY_SOME, {KEPT: f'{KEPT} + live_bytes.get("temporaries", 0)'}, points=1.5),
    Edit(
        "Your saved_bytes is always 0. What is the key for saved tensors in live_bytes?",
        {KEPT: 'live_bytes.get("saved_bytes", 0)'},
        points=1.5,
    ),
    *(
        Edit(
            "You pick saved_bytes by its position in live_bytes. Are the categories always in "
            "the same order?",
            {KEPT: f"[*live_bytes.values()][{place}]"},
            points=1.5,
        )
        for place in (0, -1)
    ),
    Edit(
        "Your allocated_bytes leaves out the saved tensors. Aren't they live too?",
        {LIVE: f"{LIVE} - {KEPT}"},
        points=0.5,
    ),
    Edit(
        "Your sum counts the saved tensors twice. Aren't they already one of the categories in "
        "live_bytes?",
        {LIVE: f"{LIVE} + {KEPT}"},
        points=0.5,
    ),
    Edit(
        "Your sum counts categories of equal size only once. Do two categories of the same size "
        "share their memory?",
        {"live_bytes.values()": "set(live_bytes.values())"},
        points=0.5,
    ),
    Edit(
        "Your allocated_bytes is the largest category alone. Which other tensors are live?",
        {LIVE: "max(live_bytes.values())"},
        points=0.5,
    ),
    Edit(
        "Your allocated_bytes counts only the saved tensors. Which other tensors are live?",
        {LIVE: KEPT},
        points=0.5,
        shows=("allocated_bytes",),
    ),
    Edit(
        "You count only what stays from one step to the next. Which live tensors come and go "
        "within a step?",
        {LIVE: f'{LIVE} - {KEPT} - live_bytes.get("temporaries", 0)'},
        points=0.5,
    ),
    *(
        Edit(
            "Your sum picks some categories by name. Which others can live_bytes contain?",
            {LIVE: f'live_bytes.get("parameters", 0){also}'},
            points=0.5,
        )
        for also in ("", f" + {KEPT}")
    ),
    *(
        Edit(
            f"Your allocated_bytes leaves out the {name.replace('_', ' ')}. Aren't they live too?",
            {LIVE: f'{LIVE} - live_bytes.get("{name}", 0)'},
            points=0.5,
        )
        for name in OTHERS
    ),
    Edit(
        "Your reserved_bytes equals allocated_bytes. What else does the allocator hold?",
        {RESERVED: "live,"},
        points=1.5,
    ),
    Edit(
        "Your driver_bytes is only the memory outside PyTorch. What else has the process taken?",
        {DRIVER: "outside_bytes"},
        points=1.5,
    ),
    Edit(
        "Your driver_bytes leaves out the live tensors. Where did PyTorch get the memory they "
        "are in?",
        {DRIVER: "cached_bytes + outside_bytes"},
        points=1.5,
    ),
    Edit(MISSING, {RESERVED: "cached_bytes,"}, points=1.5),
    Edit(
        MISSING,
        {RESERVED: "cached_bytes,", DRIVER: "cached_bytes + outside_bytes"},
        points=1.0,
    ),
    Edit(
        "Your driver_bytes leaves out the cached blocks. Has the allocator given them back to "
        "the driver?",
        {DRIVER: "live + outside_bytes"},
        points=1.5,
    ),
    Edit(
        "Your driver_bytes equals reserved_bytes. Which of the four includes memory outside "
        "PyTorch?",
        {DRIVER: "live + cached_bytes"},
        points=1.5,
    ),
    Edit(
        "Your reserved_bytes includes memory outside PyTorch. Did PyTorch's allocator reserve it?",
        {RESERVED: "live + outside_bytes + cached_bytes,"},
        points=1.5,
    ),
    Edit(
        "Your allocated_bytes includes memory outside PyTorch. Does it hold any tensors?",
        {LIVE: f"{LIVE} + outside_bytes"},
        points=0.5,
    ),
    Edit(
        "You subtract the free blocks from the live tensors. Does a free block hold any tensor?",
        {LIVE: f"{LIVE} - cached_bytes"},
        points=0.5,
    ),
    Edit(
        "Of the live tensors, your reserved_bytes counts only the saved ones. Which memory "
        "holds the others?",
        {RESERVED: f"{KEPT} + cached_bytes,"},
        points=1.5,
    ),
    Edit(
        "You subtract the blocks in use from the free ones. Aren't blocks in use reserved too?",
        {RESERVED: "cached_bytes - live,"},
        points=1.5,
    ),
    *(
        Edit(ONE_IN_ANOTHER, {DRIVER: f"{DRIVER} + {again}"}, points=1.5)
        for again in ("live", "cached_bytes", f"live + {KEPT}")
    ),
    Edit(ONE_IN_ANOTHER, {RESERVED: "2 * live + cached_bytes,"}, points=1.5),
    Edit(
        "Your allocated_bytes includes the cached blocks. Do they hold any live tensor?",
        {LIVE: f"{LIVE} + cached_bytes"},
        points=0.5,
    ),
)

CHECK = Check(
    cases=memory_cases, judge=EqualTo(counted_memories, *edited("u00-four-memories", EDITS))
)
