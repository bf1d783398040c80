"""Check of four numbers for one process: saved, allocated, reserved, driver."""

import random
from collections.abc import Mapping

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo, Mistake
from course_utils.formulas.memory import four_memories

SAVED = "saved_for_backward"
OTHERS = ("parameters", "gradients", "optimizer_states", "temporaries")


def memory_cases(seed: int) -> list[Case]:
    """Any categories in any order, some of them empty; with and without cached blocks."""
    rng = random.Random(seed)

    def live(names: list[str]) -> dict[str, int]:
        rng.shuffle(names)
        return {name: rng.choice((0, rng.randint(1, 2**36))) for name in names}

    def case(live_bytes: dict[str, int], cached_bytes: int) -> Case:
        outside = rng.randint(2**28, 2**31)
        return {"live_bytes": live_bytes, "cached_bytes": cached_bytes, "outside_bytes": outside}

    full = {name: rng.randint(1, 2**36) for name in (*OTHERS, SAVED)}
    return [
        {"live_bytes": {"parameters": 100, SAVED: 40}, "cached_bytes": 10, "outside_bytes": 500},
        case(full, rng.randint(1, 2**34)),
        case({SAVED: rng.randint(1, 2**36), "temporaries": rng.randint(1, 2**36)}, 2**20),
        case({"parameters": rng.randint(1, 2**36), SAVED: 0}, 0),
        {"live_bytes": full, "cached_bytes": 0, "outside_bytes": 0},
        *(
            case(live([SAVED, *rng.sample(OTHERS, count)]), rng.choice((0, rng.randint(1, 2**34))))
            for count in (0, 1, 2, 3, 4)
            for _ in range(4)
        ),
    ]


def counted_memories(
    live_bytes: Mapping[str, int], cached_bytes: int, outside_bytes: int
) -> dict[str, int]:
    """The same four numbers, counted item by item over all that the driver sees."""
    items = [("outside", outside_bytes), ("cached", cached_bytes), *live_bytes.items()]
    counted = dict.fromkeys(("saved_bytes", "allocated_bytes", "reserved_bytes", "driver_bytes"), 0)
    for name, num_bytes in items:
        counted["driver_bytes"] += num_bytes
        counted["reserved_bytes"] += num_bytes if name != "outside" else 0
        counted["allocated_bytes"] += num_bytes if name in live_bytes else 0
        counted["saved_bytes"] += num_bytes if name == SAVED else 0
    return counted


def _without_saved(live: Mapping[str, int], cached: int, outside: int) -> dict[str, int]:
    allocated = sum(live.values()) - live[SAVED]
    return {
        "allocated_bytes": allocated,
        "reserved_bytes": allocated + cached,
        "driver_bytes": allocated + cached + outside,
    }


CHECK = Check(
    cases=memory_cases,
    reference=four_memories,
    judge=EqualTo(
        counted_memories,
        Mistake(
            "Autograd keeps only some of the live tensors. Which category does it keep?",
            lambda live, cached, outside: {"saved_bytes": sum(live.values())},
        ),
        Mistake(
            "You leave out of allocated what is saved for backward. Is a saved tensor not live?",
            _without_saved,
        ),
        Mistake(
            "Other categories may be live too. Which of those in live_bytes do you leave out?",
            lambda live, cached, outside: {
                "allocated_bytes": live.get("parameters", 0) + live[SAVED],
            },
        ),
        Mistake(
            "What is cached is reserved and not allocated. What is the difference between the two?",
            lambda live, cached, outside: {"reserved_bytes": sum(live.values())},
        ),
        Mistake(
            "The driver sees everything that the process took. Which parts do you leave out?",
            lambda live, cached, outside: {"driver_bytes": outside},
        ),
        Mistake(
            "Free blocks are reserved, and so are the blocks in use. Which of them is missing?",
            lambda live, cached, outside: {
                "reserved_bytes": cached,
                "driver_bytes": cached + outside,
            },
        ),
        Mistake(
            "Blocks that the allocator keeps are not free for others. Does the driver see them?",
            lambda live, cached, outside: {"driver_bytes": sum(live.values()) + outside},
        ),
        Mistake(
            "The process also takes memory outside of PyTorch. Which of the four numbers shows it?",
            lambda live, cached, outside: {"driver_bytes": sum(live.values()) + cached},
        ),
        Mistake(
            "The CUDA context is outside of PyTorch's pool. Does the allocator reserve it?",
            lambda live, cached, outside: {"reserved_bytes": sum(live.values()) + cached + outside},
        ),
        Mistake(
            "Cached blocks hold no live tensor. Do they count as allocated?",
            lambda live, cached, outside: {"allocated_bytes": sum(live.values()) + cached},
        ),
    ),
)
