"""Events in a file that https://ui.perfetto.dev opens: a process for each rank, a thread per lane.

A click on an event there shows its bytes, its phase and when it was launched. The file is in
Chrome's format: microseconds with a point.
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from course_utils.traces.event import Event, made
from course_utils.traces.table import ns_of

MADE_BY = "traces of the course"


def write_perfetto(events: Iterable[Event], path: str | Path) -> None:
    """Write events as a JSON file for Perfetto; `read_trace` gives them back."""
    found = list(events)
    places = {place: number for number, place in enumerate(lanes_of(found))}
    names = [entry for place, number in places.items() for entry in _names(*place, number)]
    entries = [_entry(each, places[each["rank"], each["lane"]]) for each in found]
    trace = {"otherData": {"made_by": MADE_BY}, "traceEvents": [*names, *entries]}
    Path(path).write_text(json.dumps(trace), encoding="utf-8")


def lanes_of(events: Iterable[Event]) -> list[tuple[int, str]]:
    """Rank and lane of every row of a drawing: each rank's CPU first, then its GPU's streams."""
    found = {(each["rank"], each["lane"]) for each in events}
    return sorted(found, key=lambda place: (place[0], _in_order(place[1])))


def is_from_here(trace: Mapping[str, Any]) -> bool:
    """Whether `write_perfetto` has written a trace."""
    made_by: object = trace.get("otherData", {}).get("made_by")
    return made_by == MADE_BY


def perfetto_events(trace: Mapping[str, Any]) -> list[Event]:
    """The events of a trace that `write_perfetto` has written."""
    entries = trace["traceEvents"]
    lanes = {e["tid"]: e["args"]["name"] for e in entries if e["name"] == "thread_name"}
    events = []
    for entry in entries:
        if entry["ph"] == "X":
            start_ns, arguments = ns_of(entry["ts"]), entry["args"]
            event = made(entry["pid"], lanes[entry["tid"]], entry["cat"], entry["name"], start_ns)
            event["end_ns"] = start_ns + ns_of(entry["dur"])
            event["bytes"], event["phase"] = arguments["bytes"], arguments["phase"]
            launch = arguments["launch_us"]
            event["launch_ns"] = None if launch is None else ns_of(launch)
            events.append(event)
    return events


def _in_order(lane: str) -> tuple[str, int, str]:
    device, _, number = lane.partition(":")
    return device, int(number) if number.isdigit() else -1, number


def _names(rank: int, lane: str, number: int) -> list[dict[str, Any]]:
    place = {"ph": "M", "pid": rank, "tid": number}
    return [
        place | {"name": "process_name", "args": {"name": f"rank {rank}"}},
        place | {"name": "thread_name", "args": {"name": lane}},
        place | {"name": "thread_sort_index", "args": {"sort_index": number}},
    ]


def _entry(event: Event, number: int) -> dict[str, Any]:
    launch_ns = event["launch_ns"]
    return {
        "ph": "X",
        "cat": event["kind"],
        "name": event["name"],
        "pid": event["rank"],
        "tid": number,
        "ts": event["start_ns"] / 1000,
        "dur": (event["end_ns"] - event["start_ns"]) / 1000,
        "args": {
            "bytes": event["bytes"],
            "phase": event["phase"],
            "launch_us": None if launch_ns is None else launch_ns / 1000,
        },
    }
