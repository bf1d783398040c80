"""What a device or a thread did from when to when: an event, and which events are meant.

    >>> events = [made(lane="gpu:7", kind="kernel", name="gemm", start_ns=0, end_ns=900),
    ...           made(lane="gpu:9", kind="communication", name="AllReduce", start_ns=400,
    ...                end_ns=1000, bytes=4096)]
    >>> [each["name"] for each in select(events, lane="gpu:*", kind="kernel")]
    ['gemm']

Conventions: moments are whole nanoseconds on one clock for all ranks of a trace, as profilers write
them, so that sums and comparisons are exact; what functions return is in seconds. Events are plain
dictionaries: `pandas.DataFrame(events)` is their table, and JSON holds them as they are.
"""

from collections.abc import Collection, Iterable
from fnmatch import fnmatchcase
from typing import TypedDict

from course_utils.intervals import Span, union


class Event(TypedDict):
    """One thing that ran.

    Attributes:
        rank: Process that it belongs to.
        lane: What it ran on: ``"gpu:7"`` for stream 7 of the rank's GPU, ``"cpu"`` or ``"cpu:2"``
            for a thread.
        kind: One of `KINDS`.
        name: Of the kernel, operator, call or range.
        start_ns: When it began.
        end_ns: When it ended.
        bytes: The whole message of a collective, or what a copy moved; 0 if that is not recorded.
        phase: What the program was doing, as ``"backward"``; empty if that is not recorded.
        launch_ns: When the CPU's call that launched it began; None if that is not recorded.
    """

    rank: int
    lane: str
    kind: str
    name: str
    start_ns: int
    end_ns: int
    bytes: int
    phase: str
    launch_ns: int | None


# Of a device: ``compute`` is several kernels in a row as one event.
COMPUTE = ("kernel", "compute")
GPU_WORK = (*COMPUTE, "communication", "memcpy", "memset")
# Of a CPU: operators; calls that launch, wait, or do anything else; ranges that a program named.
CPU_WORK = ("cpu_op", "launch", "sync", "runtime", "range")
KINDS = (*GPU_WORK, *CPU_WORK)


def made(  # noqa: PLR0913, PLR0917
    rank: int = 0,
    lane: str = "gpu",
    kind: str = "kernel",
    name: str = "",
    start_ns: int = 0,
    end_ns: int = 0,
    bytes: int = 0,
    phase: str = "",
    launch_ns: int | None = None,
) -> Event:
    """An event, with what is not given as if it were not recorded."""
    return Event(
        rank=rank,
        lane=lane,
        kind=kind,
        name=name,
        start_ns=start_ns,
        end_ns=end_ns,
        bytes=bytes,
        phase=phase,
        launch_ns=launch_ns,
    )


def select(  # noqa: PLR0913
    events: Iterable[Event],
    *,
    rank: int | Collection[int] | None = None,
    lane: str | Collection[str] = "*",
    kind: str | Collection[str] = "*",
    name: str | Collection[str] = "*",
    phase: str | Collection[str] = "*",
) -> list[Event]:
    """The events that fit all of what is given, in the same order.

    Args:
        events: Of a trace.
        rank: One rank or several; by default all.
        lane: A pattern such as ``"gpu:*"``, as for names of files, or several of them.
        kind: Likewise, as `COMPUTE` or `GPU_WORK`.
        name: Likewise.
        phase: Likewise.
    """
    ranks = {rank} if isinstance(rank, int) else rank
    patterns = {"lane": lane, "kind": kind, "name": name, "phase": phase}
    wanted = {
        field: [each] if isinstance(each, str) else list(each)
        for field, each in patterns.items()
        if each != "*"
    }
    return [
        event
        for event in events
        if (ranks is None or event["rank"] in ranks)
        and all(_fits(str(event[field]), each) for field, each in wanted.items())  # type: ignore[literal-required]
    ]


def _fits(text: str, patterns: Iterable[str]) -> bool:
    return any(text == each or fnmatchcase(text, each) for each in patterns)


def spans_of(events: Iterable[Event]) -> list[Span]:
    """When at least one of the events ran, as (start, end) in nanoseconds, apart and in order."""
    return union((each["start_ns"], each["end_ns"]) for each in events)


def by_rank(events: Iterable[Event]) -> dict[int, list[Event]]:
    """The events of each rank, in the order of ranks."""
    found: dict[int, list[Event]] = {}
    for event in events:
        found.setdefault(event["rank"], []).append(event)
    return dict(sorted(found.items()))


def outermost(events: Iterable[Event]) -> list[Event]:
    """The events that run inside no other one of their lane: operators that no other one calls."""
    busy_until: dict[tuple[int, str], int] = {}
    found = []
    for event in sorted(events, key=lambda each: (each["start_ns"], -each["end_ns"])):
        lane = event["rank"], event["lane"]
        if event["end_ns"] > busy_until.get(lane, event["start_ns"] - 1):
            found.append(event)
            busy_until[lane] = event["end_ns"]
    return found
