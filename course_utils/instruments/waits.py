"""What did a GPU wait for: the data loader, or the CPU that launches its kernels?

A kernel is in the queue from its launch to its start. While nothing runs and nothing is queued, the
GPU has nothing to do: the CPU is late, with loading or with launching.

    >>> from course_utils.traces import made
    >>> kernels = [
    ...     made(lane="gpu:7", start_ns=10, end_ns=30, launch_ns=0),
    ...     made(lane="gpu:7", start_ns=32, end_ns=40, launch_ns=15),
    ...     made(lane="gpu:7", start_ns=70, end_ns=80, launch_ns=60),
    ... ]
    >>> loading = {"lane": "cpu", "kind": "range", "name": "DataLoader.__next__"}
    >>> waits = gpu_waits([*kernels, made(**loading, start_ns=25, end_ns=55)])
    >>> waits["busy"], waits["loader"], waits["launches"], round(waits["at_best"], 2)
    (38, 15, 5, 1.32)

Conventions: whole nanoseconds, as traces have them; one rank. A profiler slows the CPU, and so adds
to what its trace shows as waiting for launches.

Source: NVIDIA, CUDA C++ Programming Guide (asynchronous execution, graphs).
"""

from collections.abc import Iterable

from course_utils.intervals import Span, difference, union
from course_utils.traces.event import GPU_WORK, Event, select, spans_of

LOADER = "*DataLoader*"  # names of the ranges in which PyTorch's profiler sees the loader


def gpu_waits(events: Iterable[Event]) -> dict[str, float]:
    """Nanoseconds of one GPU from its first event's start to its last one's end, by what it did.

    Args:
        events: Of one rank: its GPU's work and, for the loader, the ranges of its CPU. What has no
            launch counts as launched when it began.

    Returns:
        ``busy``: something runs. ``loader``: nothing runs or is queued while the CPU is in a
        loader. ``launches``: nothing runs or is queued, and there is no loader. ``at_best``: how
        many times as fast it would be if one launch, that of a CUDA graph, had queued everything:
        all of the time over ``busy`` and ``loader``.

    Raises:
        ValueError: If nothing ran on a GPU.
    """
    found = list(events)
    work = select(found, kind=GPU_WORK)
    if not work:
        raise ValueError("gpu_waits wants events of a GPU, and there are none: see their kinds")
    busy = spans_of(work)
    whole = [(busy[0][0], busy[-1][1])]
    starved = difference(whole, union((_queued_ns(each), each["end_ns"]) for each in work))
    launches = _ns(difference(starved, spans_of(_loaders(found))))
    loader = _ns(starved) - launches
    at_best = _ns(whole) / (_ns(busy) + loader)
    return {"busy": _ns(busy), "loader": loader, "launches": launches, "at_best": at_best}


def _loaders(events: list[Event]) -> list[Event]:
    """The ranges of the loader on the CPU; a profiler may draw them on the GPU, too."""
    return select(events, lane="cpu*", name=LOADER)


def _queued_ns(event: Event) -> int:
    """When an event came into the queue, as far as that is recorded."""
    return event["start_ns"] if event["launch_ns"] is None else event["launch_ns"]


def _ns(spans: Iterable[Span]) -> int:
    return round(sum(end - start for start, end in spans))
