"""Three numbers of a step of DistributedDataParallel, read from one rank's trace.

Backward ends with autograd's last node. The **tail** lasts from there to the end of the last
all-reduce. Communication is **exposed** while an all-reduce runs and no operator does.

Events are those of `course_utils.traces`.
"""

from typing import Any

from course_utils.intervals import length, union

ALL_REDUCE, BACKWARD = "gloo:all_reduce", "autograd::"  # how names of events begin


def read_step(events: list[dict[str, Any]]) -> dict[str, int]:
    """Bytes of the first bucket, and nanoseconds of the tail and of exposed communication.

    Args:
        events: Of one rank, in any order.
    """
    sent = [each for each in events if each["name"] == ALL_REDUCE]
    others = [each for each in events if each["name"] != ALL_REDUCE]
    backward_end = max(each["end_ns"] for each in others if each["name"].startswith(BACKWARD))
    busy = union(_interval(each) for each in others)
    either = union(_interval(each) for each in events)
    return {
        "first_bytes": min(sent, key=lambda each: each["start_ns"])["bytes"],
        "tail_ns": max(each["end_ns"] for each in sent) - backward_end,
        "exposed_ns": int(length(either) - length(busy)),
    }


def _interval(event: dict[str, Any]) -> tuple[int, int]:
    return event["start_ns"], event["end_ns"]
