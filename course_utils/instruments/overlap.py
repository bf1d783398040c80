"""How much of the communication is hidden behind computation?

A trace says from when to when each kernel ran. Where a kernel that communicates and one that
computes run at once, the communication is hidden; the rest of it is exposed, and costs time.

    >>> trace = {"traceEvents": [
    ...     {"ph": "X", "cat": "kernel", "name": "gemm", "ts": 0, "dur": 10},
    ...     {"ph": "X", "cat": "kernel", "name": "ncclDevKernel", "ts": 6, "dur": 6}]}
    >>> round(1e6 * measure_overlap(trace).exposed_seconds, 3)
    2.0

Conventions: kernels on several streams at once count once. Copies to and from the host are neither.
In a trace without kernels, that of a CPU, operators compute and gloo's ranges communicate.

Sources: PyTorch documentation, `torch.profiler`; the Chrome trace event format.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from course_utils.intervals import Span, length, union

COMMUNICATION = ("nccl", "gloo:")  # how names of such kernels and ranges begin


@dataclass(frozen=True, kw_only=True)
class Overlap:
    """Seconds of a trace in which something computed, and in which something communicated.

    Attributes:
        computation_seconds: In which at least one kernel computed.
        communication_seconds: In which at least one communicated.
        hidden_seconds: In which both happened.
    """

    computation_seconds: float
    communication_seconds: float
    hidden_seconds: float

    @property
    def exposed_seconds(self) -> float:
        """Of communication beside which nothing computed."""
        return self.communication_seconds - self.hidden_seconds


def measure_overlap(trace: Mapping[str, Any] | str | Path) -> Overlap:
    """Seconds of computation, of communication, and of both at once, in one rank's trace.

    Args:
        trace: As `profile` gives or writes it: a dict, or the path of a JSON file.

    Raises:
        ValueError: If it is no trace, or has neither kernels nor operators.
    """
    computing, communicating = list[Span](), list[Span]()
    for event in _events(trace):
        start = round(1000 * event["ts"])  # nanoseconds, of microseconds with a point
        interval = (start, start + round(1000 * event["dur"]))
        (communicating if _communicates(event) else computing).append(interval)
    of_each = (computing, communicating, computing + communicating)
    computation, communication, either = (length(union(spans)) for spans in of_each)
    return Overlap(
        computation_seconds=computation / 1e9,
        communication_seconds=communication / 1e9,
        hidden_seconds=(computation + communication - either) / 1e9,
    )


def _events(trace: Mapping[str, Any] | str | Path) -> list[dict[str, Any]]:
    """Kernels; where there are none, operators and gloo's ranges."""
    if not isinstance(trace, Mapping):
        trace = json.loads(Path(trace).read_text(encoding="utf-8"))
    if not isinstance(trace, Mapping) or "traceEvents" not in trace:
        raise ValueError("measure_overlap wants a trace with the entry 'traceEvents'")
    complete = [event for event in trace["traceEvents"] if event.get("ph") == "X"]
    kernels = [event for event in complete if event.get("cat") == "kernel"]
    found = kernels or [event for event in complete if _works_on_cpu(event)]
    if not found:
        raise ValueError("measure_overlap found no kernel and no operator in the trace")
    return found


def _works_on_cpu(event: Mapping[str, Any]) -> bool:
    """Operators of c10d only start what a range of gloo then does."""
    is_operator = event.get("cat") == "cpu_op" and not event["name"].startswith("c10d::")
    return is_operator or _communicates(event)


def _communicates(event: Mapping[str, Any]) -> bool:
    name: str = event["name"]
    return name.startswith(COMMUNICATION)
