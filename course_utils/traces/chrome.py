"""A trace in Chrome's format, as PyTorch's profiler writes it, read as events.

A kernel and the CPU's call that launched it carry one correlation number: so an event knows its
launch. Its phase is the innermost range (`named_range`, ``record_function``) open at its launch, or
at its start on the CPU.

Conventions: a trace of the profiler has microseconds with a point, relative to a moment that it
names; ranks of one host that name it get one clock.

Sources: PyTorch documentation, `torch.profiler`; pytorch/kineto, output_json.cpp; the Chrome trace
event format.
"""

import math
import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from typing import Any

from course_utils.traces.event import Event, made
from course_utils.traces.table import ns_of

KINDS = {
    "kernel": "kernel",
    "gpu_memcpy": "memcpy",
    "gpu_memset": "memset",
    "cpu_op": "cpu_op",
    "cuda_runtime": "runtime",
    "cuda_driver": "runtime",
    "user_annotation": "range",
    "gpu_user_annotation": "range",
}
ON_GPU = ("kernel", "gpu_memcpy", "gpu_memset")
# Kernels that communicate, and the ranges in which gloo does.
COMMUNICATES = re.compile(r"^(nccl|gloo:)|DeepEP|deep_ep|multimem_|symm_mem", re.IGNORECASE)
WITH_A_WHOLE_MESSAGE = ("gloo:all_reduce", "gloo:broadcast")  # as their first input
ELEMENT_BYTES = {
    1: ("byte", "char", "bool", "unsigned char", "signed char", "float8_e4m3fn", "float8_e5m2"),
    2: ("half", "bfloat16", "short"),
    4: ("float", "int"),
    8: ("double", "long", "long int"),
}
BYTES_OF = {name: size for size, names in ELEMENT_BYTES.items() for name in names}

Entry = Mapping[str, Any]


def profiled_events(trace: Mapping[str, Any], rank: int) -> list[Event]:
    """The events of a profiler's trace, by their start, on the clock of its host.

    Args:
        trace: With the entry ``traceEvents``.
        rank: Where the trace does not say it itself.
    """
    rank = trace.get("distributedInfo", {}).get("rank", rank)
    origin_ns = trace.get("baseTimeNanoseconds", 0)
    entries = sorted(filter(_is_kept, trace["traceEvents"]), key=lambda e: (e["ts"], -e["dur"]))
    launches, lanes, phases = _launches(entries), _Lanes(), _Phases(entries)
    launched = {each["args"]["correlation"] for each in entries if each["cat"] in ON_GPU}
    events = []
    for entry in entries:
        start_ns, kind = ns_of(entry["ts"]), _kind(entry, launched)
        launch_ns = launches.get(entry["args"]["correlation"]) if entry["cat"] in ON_GPU else None
        event = made(rank, lanes.of(entry), kind, entry["name"], start_ns + origin_ns)
        event["end_ns"] = event["start_ns"] + ns_of(entry["dur"])
        event["bytes"] = _bytes(entry)
        event["phase"] = "" if kind == "range" else phases.at(launch_ns or start_ns)
        event["launch_ns"] = None if launch_ns is None else launch_ns + origin_ns
        events.append(event)
    return events


def _is_kept(entry: Entry) -> bool:
    return entry.get("ph") == "X" and entry.get("cat") in KINDS


def _launches(entries: Iterable[Entry]) -> dict[int, int]:
    """When the CPU's call of each correlation number began."""
    return {
        entry["args"]["correlation"]: ns_of(entry["ts"])
        for entry in entries
        if KINDS[entry["cat"]] == "runtime" and "correlation" in entry["args"]
    }


def _kind(entry: Entry, launched: set[int]) -> str:
    kind, name = KINDS[entry["cat"]], entry["name"]
    if COMMUNICATES.search(name) and (kind == "kernel" or name.startswith("gloo:")):
        return "communication"
    if kind == "runtime" and "Synchronize" in name:
        return "sync"
    is_launch = kind == "runtime" and entry["args"].get("correlation") in launched
    return "launch" if is_launch else kind


class _Lanes:
    """Names of streams and threads; threads are numbered as they come."""

    def __init__(self) -> None:
        self._threads: dict[Any, str] = {}

    def of(self, entry: Entry) -> str:
        if entry["cat"] in ON_GPU:
            return f"gpu:{entry['args']['stream']}"
        if entry["cat"] == "gpu_user_annotation":
            return "gpu"
        number = len(self._threads)
        return self._threads.setdefault(entry["tid"], f"cpu:{number}" if number else "cpu")


class _Phases:
    """The ranges that the program named."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self._ranges = [
            (start := ns_of(each["ts"]), start + ns_of(each["dur"]), each["name"])
            for each in entries
            if each["cat"] == "user_annotation" and not each["name"].startswith(("gloo:", "nccl:"))
        ]
        self._starts = [start for start, _, _ in self._ranges]

    def at(self, moment: int) -> str:
        """The one that began last of those that are open."""
        begun = self._ranges[: bisect_right(self._starts, moment)]
        return next((name for _, end, name in reversed(begun) if moment < end), "")


def _bytes(entry: Entry) -> int:
    """What a copy moved, or the whole message of a collective: its larger side."""
    arguments = entry["args"]
    if entry["cat"] != "cpu_op" and "bytes" in arguments:
        return int(arguments["bytes"])
    if "In msg nelems" in arguments:  # of a kernel of NCCL
        elements = max(arguments["In msg nelems"], arguments["Out msg nelems"])
        return int(elements) * BYTES_OF.get(str(arguments["dtype"]).lower(), 0)
    if entry["name"] in WITH_A_WHOLE_MESSAGE and "Input Dims" in arguments:
        kind = arguments["Input type"][0].removeprefix("c10::").lower()
        return BYTES_OF.get(kind, 0) * int(math.prod(arguments["Input Dims"][0]))
    return 0
