"""How long was a device busy, how much communication was hidden, how long did a kernel queue?

    >>> gemm = made(start_ns=0, end_ns=8_000)
    >>> reduce = made(kind="communication", start_ns=6_000, end_ns=11_000, launch_ns=1_000)
    >>> exposed_seconds([gemm, reduce]), queue_seconds(reduce)
    (3e-06, 5e-06)

Conventions: what runs at once on several lanes of a rank counts once. Kernels compute; where there
are none, as in the trace of a CPU, operators do, but for those of c10d, which only start what a
range of gloo then does. Copies and fills neither compute nor communicate.
"""

from collections.abc import Iterable

from course_utils.intervals import Span, difference, length
from course_utils.traces.event import COMPUTE, Event, select, spans_of

NS = 1e9  # nanoseconds of a second


def busy_seconds(events: Iterable[Event]) -> float:
    """Seconds in which at least one of the events ran.

    Args:
        events: Of one rank; `select` takes those that are meant, as ``kind=GPU_WORK``.

    Raises:
        ValueError: If they are of several ranks.
    """
    return length(_union(events)) / NS


def span_seconds(events: Iterable[Event]) -> float:
    """Seconds from the start of the first event to the end of the last; 0 if there is none."""
    return sum(end - start for start, end in _span(list(events))) / NS


def idle_spans(events: Iterable[Event]) -> list[Span]:
    """When none of the events ran, between the first and the last, as (start, end) in nanoseconds.

    Raises:
        ValueError: If they are of several ranks.
    """
    found = list(events)
    return difference(_span(found), _union(found))


def exposed_seconds(events: Iterable[Event]) -> float:
    """Seconds in which something communicated and nothing computed.

    Args:
        events: All of one rank.

    Raises:
        ValueError: If they are of several ranks.
    """
    found = list(events)
    return length(difference(_union(communicating(found)), _union(computing(found)))) / NS


def computing(events: Iterable[Event]) -> list[Event]:
    """The events that compute: kernels, or operators where there are none."""
    found = list(events)
    operators = (e for e in select(found, kind="cpu_op") if not e["name"].startswith("c10d::"))
    return select(found, kind=COMPUTE) or list(operators)


def communicating(events: Iterable[Event]) -> list[Event]:
    """The events that exchange data with other ranks."""
    return select(events, kind="communication")


def queue_seconds(event: Event) -> float:
    """Seconds from the CPU's call that launched an event to its start.

    Raises:
        ValueError: If its launch is not recorded.
    """
    if event["launch_ns"] is None:
        raise ValueError(f"{event['name']!r} has no launch_ns: its launch was not recorded")
    return (event["start_ns"] - event["launch_ns"]) / NS


def seconds_of(event: Event) -> float:
    """Seconds that one event lasted."""
    return (event["end_ns"] - event["start_ns"]) / NS


def _span(events: list[Event]) -> list[Span]:
    if not events:
        return []
    return [(min(e["start_ns"] for e in events), max(e["end_ns"] for e in events))]


def _union(events: Iterable[Event]) -> list[Span]:
    found = list(events)
    ranks = sorted({each["rank"] for each in found})
    if len(ranks) > 1:
        raise ValueError(f"wanted the events of one rank, got ranks {ranks}: select(…, rank=0)")
    return spans_of(found)
