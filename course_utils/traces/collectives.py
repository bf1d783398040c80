"""One collective seen from all its ranks: which one came last, and how fast did the data move?

A rank that arrives early waits *inside* the collective, so its time there says more about the other
ranks than about the links. The rank that comes last waits for none: what it spends is the transfer.

    >>> early = made(rank=0, kind="communication", name="AllReduce", end_ns=90, bytes=64)
    >>> late = early | {"rank": 1, "start_ns": 70}
    >>> [collective] = matched([early, late])
    >>> last_rank(collective), transfer_seconds(collective), waiting_seconds(collective)
    (1, 2e-08, {0: 7e-08, 1: 0.0})

Source: NVIDIA nccl-tests, doc/PERFORMANCE.md (bus bandwidth).
"""

import re
from collections.abc import Iterable, Sequence

from course_utils.traces.event import Event, by_rank
from course_utils.traces.times import NS, communicating, seconds_of

NAMES = {  # of a collective: how its kernels and ranges are called
    "all_reduce": "all_?reduce",
    "reduce_scatter": "reduce_?scatter",
    "all_gather": "all_?gather",
    "all_to_all": "all_?to_?all|send_?recv",
    "broadcast": "broadcast",
}


def collective_of(event: Event) -> str:
    """The collective that an event runs: a key of `NAMES`.

    Raises:
        ValueError: If its name tells none of them.
    """
    for collective, pattern in NAMES.items():
        if re.search(pattern, event["name"], re.IGNORECASE):
            return collective
    raise ValueError(f"{event['name']!r} is none of {', '.join(NAMES)}")


def bus_bytes_per_second(event: Event, num_ranks: int, seconds: float | None = None) -> float:
    """Bus bandwidth: bytes/s that the slowest link must have carried, whatever the ranks.

    Message over time, times 2 (n - 1) / n for an all-reduce, 1 for a broadcast and (n - 1) / n for
    the others.

    Args:
        event: With its bytes: the whole message, as `Event` has it.
        num_ranks: Ranks n that took part.
        seconds: Of the transfer alone, where the event also waited; by default all of the event.

    Raises:
        ValueError: If its bytes are not recorded.
    """
    if not event["bytes"]:
        raise ValueError(f"{event['name']!r} has no bytes: they were not recorded")
    passes = {"all_reduce": 2 * (num_ranks - 1) / num_ranks, "broadcast": 1.0}
    factor = passes.get(collective_of(event), (num_ranks - 1) / num_ranks)
    return factor * event["bytes"] / (seconds_of(event) if seconds is None else seconds)


def matched(events: Iterable[Event]) -> list[list[Event]]:
    """The events of all ranks that are one and the same collective, in the order of rank 0.

    The n-th of a lane's kind and bytes on one rank is the n-th on every other: ranks call them in
    the same order, or would wait for ever.

    Raises:
        ValueError: If two ranks ran different collectives.
    """
    of_ranks = {
        rank: sorted(communicating(each), key=lambda event: event["start_ns"])
        for rank, each in by_rank(events).items()
    }
    calls = {
        rank: [(event["name"], event["bytes"]) for event in each] for rank, each in of_ranks.items()
    }
    first, *others = calls
    for rank in others:
        if calls[rank] != calls[first]:
            raise ValueError(
                f"ranks {first} and {rank} ran different collectives: {len(calls[first])} and "
                f"{len(calls[rank])}; cut both traces to the same step"
            )
    return [list(each) for each in zip(*of_ranks.values(), strict=True)]


def last_rank(collective: Sequence[Event]) -> int:
    """The rank that began last: the others waited for it."""
    return max(collective, key=lambda event: event["start_ns"])["rank"]


def transfer_seconds(collective: Sequence[Event]) -> float:
    """Seconds of the rank with the shortest time in it, which waited least."""
    return min(map(seconds_of, collective))


def waiting_seconds(collective: Sequence[Event]) -> dict[int, float]:
    """Seconds that each rank was in it before the last rank came."""
    last_ns = max(event["start_ns"] for event in collective)
    return {event["rank"]: (last_ns - event["start_ns"]) / NS for event in collective}
