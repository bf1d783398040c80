"""Recorded traces of real devices: what ran, source, licence and units stand above each table.

    >>> events = recorded_trace("h100x8_nanogpt_before")
"""

import functools
from pathlib import Path

from course_utils.traces import Event, read_trace

FOLDER = Path(__file__).parent


@functools.cache
def _events(name: str) -> tuple[Event, ...]:
    return tuple(read_trace(FOLDER / f"{name}.csv"))


def recorded_trace(name: str) -> list[Event]:
    """The events of a recorded trace, new ones with each call."""
    return [each.copy() for each in _events(name)]
