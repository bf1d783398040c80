"""Numbers of a step on several ranks, read from one rank's trace.

Of a step of DistributedDataParallel: backward ends with autograd's last node. The **tail** lasts
from there to the end of the last all-reduce. Of any step: communication is **exposed** while it
runs and nothing computes.

Events are those of `course_utils.traces`.
"""

from collections.abc import Iterable
from typing import Any

from course_utils.intervals import Span, difference, length, union

ALL_REDUCE, BACKWARD = "gloo:all_reduce", "autograd::"  # how names of events begin
GATHER, SCATTER = "AllGather", "ReduceScatter"  # what names of NCCL's kernels hold


def read_step(events: list[dict[str, Any]]) -> dict[str, int]:
    """Bytes of the first bucket, and nanoseconds of the tail and of exposed communication.

    Args:
        events: Of one rank, in any order.
    """
    sent = [each for each in events if each["name"] == ALL_REDUCE]
    others = [each for each in events if each["name"] != ALL_REDUCE]
    backward_end = max(each["end_ns"] for each in others if each["name"].startswith(BACKWARD))
    return {
        "first_bytes": min(sent, key=lambda each: each["start_ns"])["bytes"],
        "tail_ns": max(each["end_ns"] for each in sent) - backward_end,
        "exposed_ns": int(length(difference(_union(sent), _union(others)))),
    }


def exposed_by_kind(events: list[dict[str, Any]]) -> dict[str, int]:
    """Nanoseconds in which gathers run, and in which gathers and scatters are exposed.

    Messages hide nothing; only kernels do.

    Args:
        events: Kernels and messages of one rank, in any order.
    """
    kernels = _union(each for each in events if each["kind"] == "kernel")
    gathers, scatters = (
        _union(each for each in events if name in each["name"]) for name in (GATHER, SCATTER)
    )
    return {
        "gathers_ns": int(length(gathers)),
        "exposed_gathers_ns": int(length(difference(gathers, kernels))),
        "exposed_scatters_ns": int(length(difference(scatters, kernels))),
    }


def _union(events: Iterable[dict[str, Any]]) -> list[Span]:
    return union((each["start_ns"], each["end_ns"]) for each in events)
