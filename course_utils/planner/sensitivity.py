"""Which input of a mission moves its days most?

>>> from course_utils.planner import COURSE_FUNCTIONS, MISSION, course_function
>>> factors = doubled({name: course_function(name) for name in COURSE_FUNCTIONS}, MISSION)
>>> round(factors["tokens"], 2), round(factors["devices"], 2)
(2.0, 0.5)
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from course_utils.planner.mission import Mission
from course_utils.planner.quantities import Functions, days_of_fastest


def _of_machine(name: str) -> Callable[[Mission], Mission]:
    def change(mission: Mission) -> Mission:
        twice: dict[str, Any] = {name: 2 * getattr(mission.machine, name)}
        return replace(mission, machine=replace(mission.machine, **twice))

    return change


# What can be doubled, in words, and the mission in which it is.
DOUBLED: dict[str, Callable[[Mission], Mission]] = {
    "tokens": lambda mission: replace(mission, num_tokens=2 * mission.num_tokens),
    "tokens of a step": lambda mission: replace(
        mission, tokens_per_step=2 * mission.tokens_per_step
    ),
    "tokens of a sequence": lambda mission: replace(mission, seq_len=2 * mission.seq_len),
    "devices": _of_machine("num_devices"),
    "speed of links": _of_machine("link_bytes_per_second"),
    "speed of adapters": _of_machine("adapter_bytes_per_second"),
    "speed of products": _of_machine("matmul_flops_per_second"),
    "speed of memory": _of_machine("memory_bytes_per_second"),
    "memory": _of_machine("memory_bytes"),
}


def doubled(functions: Functions, mission: Mission) -> dict[str, float]:
    """Days of the fastest plan with one input doubled, over its days as it is.

    What moves them most comes first; an input that leaves no plan that fits is left out.

    Raises:
        ValueError: If no plan fits the mission as it is.
    """
    factors = {}
    days = days_of_fastest(functions, mission)
    for name, change in DOUBLED.items():
        try:
            factors[name] = days_of_fastest(functions, change(mission)) / days
        except ValueError:
            continue
    return dict(sorted(factors.items(), key=lambda each: -max(each[1], 1 / each[1])))
