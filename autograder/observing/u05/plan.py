"""A plan: how many layers take which option, and what that comes to."""

from typing import Any

from autograder.checking.exercise_check import Case, call
from autograder.checking.plain_data import DICTIONARIES, Plain, describe

LABELS = {
    "unknown_names": "names that no option has",
    "odd_counts": "numbers of layers that are not whole numbers from 0 on",
    "planned_layers": "planned layers",
    "bytes_above_cap": "bytes above the cap",
    "recomputed_flops": "recomputed FLOPs",
}


def observe(answer: Any, case: Case) -> Plain:
    """The student's plan.

    Raises:
        TypeError: If it is not a dictionary.
    """
    plan: Any = call(answer, case)
    if plan is not None and type(plan) not in DICTIONARIES:
        raise TypeError(
            f"wanted a dictionary from names to numbers of layers, got {describe(plan)}"
        )
    return plan and dict(plan)


def summarise(case: Case, observed: Plain, right: Plain) -> dict[str, int]:
    """What a plan comes to: layers that it covers, bytes above the cap, and recomputed FLOPs."""
    by_name = {option["name"]: option for option in case["options"]}
    counts = {
        name: count
        for name, count in observed.items()
        if name in by_name and type(count) in (int, float) and count >= 0 and count % 1 == 0
    }
    kept, flops = (
        sum(count * by_name[name][field] for name, count in counts.items())
        for field in ("kept_bytes", "recomputed_flops")
    )
    unknown = observed.keys() - by_name.keys()
    return {
        "unknown_names": len(unknown),
        "odd_counts": len(observed) - len(unknown) - len(counts),
        "planned_layers": sum(counts.values()),
        "bytes_above_cap": max(0, kept - case["cap_bytes"]) if counts else 0,
        "recomputed_flops": flops,
    }
