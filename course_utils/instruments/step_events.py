"""The events of one step of DistributedDataParallel, read from a profiler's trace on the CPU.

Operators run on one thread; gloo sends each bucket on a thread of its own. Kept are the operators
that no other one calls, each hand-over of a bucket, ``c10d::allreduce_``, and each all-reduce
itself, ``gloo:all_reduce``.

Conventions: nanoseconds since the first event; thread 0 runs operators; gradients are float32.

Source: PyTorch documentation, `torch.profiler`; the Chrome trace event format.
"""

import math
from collections.abc import Mapping
from typing import Any

HAND_OVER, ALL_REDUCE = "c10d::allreduce_", "gloo:all_reduce"
ELEMENT_BYTES = 4

Event = dict[str, Any]


def step_events(trace: Mapping[str, Any]) -> list[Event]:
    """The events that matter, in the order of their beginning.

    Args:
        trace: Of one rank, in Chrome's format, recorded with shapes.

    Returns:
        For each event ``name``, ``thread``, ``start_ns``, ``end_ns`` and the ``bytes`` of a bucket,
        zero for an operator.

    Raises:
        ValueError: If there is no all-reduce in it.
    """
    found = sorted(filter(_is_known, trace["traceEvents"]), key=lambda e: (e["ts"], -e["dur"]))
    if not any(each["name"] == ALL_REDUCE for each in found):
        raise ValueError(f"step_events found no {ALL_REDUCE} in the trace")
    origin = min(_ns(each["ts"]) for each in found)
    threads: list[int] = []
    events, busy_until = list[Event](), 0
    for each in found:
        start = _ns(each["ts"]) - origin
        end = start + _ns(each["dur"])
        is_bucket = each["name"] in (HAND_OVER, ALL_REDUCE)
        if not is_bucket and end <= busy_until:
            continue  # another operator has called it
        if each["name"] == ALL_REDUCE and each["tid"] not in threads:
            threads.append(each["tid"])
        if each["name"] != ALL_REDUCE:
            busy_until = max(busy_until, end)
        events.append(
            {
                "name": each["name"],
                "thread": 1 + threads.index(each["tid"]) if each["name"] == ALL_REDUCE else 0,
                "start_ns": start,
                "end_ns": end,
                "bytes": _bucket_bytes(each) if is_bucket else 0,
            }
        )
    return events


def _is_known(event: Mapping[str, Any]) -> bool:
    is_operator = event.get("cat") == "cpu_op"
    return event.get("ph") == "X" and (is_operator or event["name"] == ALL_REDUCE)


def _ns(microseconds: float) -> int:
    return round(1000 * microseconds)


def _bucket_bytes(event: Mapping[str, Any]) -> int:
    """The first input is the flat tensor of the bucket, or a list that holds it."""
    shape: list[Any] = event["args"]["Input Dims"][0]
    if shape and isinstance(shape[0], list):
        shape = shape[0]
    return ELEMENT_BYTES * int(math.prod(shape))
