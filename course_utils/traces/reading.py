"""One reader for every trace: recorded tables, a profiler's files and objects, and Perfetto's."""

import gzip
import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from course_utils.traces.chrome import profiled_events
from course_utils.traces.event import Event
from course_utils.traces.perfetto import is_from_here, perfetto_events
from course_utils.traces.table import events_of, table_rows


class Profiler(Protocol):
    """What has a trace to write: a `torch.profiler.profile` that has stopped."""

    def export_chrome_trace(self, path: str) -> object:
        """Write the trace to a file."""


Source = str | Path | Mapping[str, Any] | Profiler


def read_trace(*sources: Source) -> list[Event]:
    """The events of a trace, in the order of their start, the first at zero.

    A table and a file for Perfetto keep their own clock and order.

    Args:
        sources: One, or one for each rank: a table's path (``.csv``), that of a trace in Chrome's
            format (``.json`` or ``.json.gz``), the trace itself as `profile` of the course has it,
            or a `torch.profiler.profile` that has stopped.

    Raises:
        ValueError: If one is no trace, or has no event that is known.
    """
    tables = [each for each in sources if isinstance(each, str | Path) and _is_table(each)]
    if tables:
        return [event for each in tables for event in _table_events(Path(each))]
    traces = [_trace(source) for source in sources]
    if all(map(is_from_here, traces)):
        return [event for trace in traces for event in perfetto_events(trace)]
    events = [e for place, trace in enumerate(traces) for e in profiled_events(trace, place)]
    if not events:
        raise ValueError("read_trace found no kernel and no operator in the trace")
    return _from_zero(sorted(events, key=lambda event: (event["start_ns"], -event["end_ns"])))


def trace_of(profiler: Profiler) -> dict[str, Any]:
    """The trace of a profiler that has stopped, which writes it once, and only to a file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(path))
        trace: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return trace


def _is_table(path: str | Path) -> bool:
    return Path(path).suffix == ".csv"


def _table_events(path: Path) -> list[Event]:
    return events_of(table_rows(path.read_text(encoding="utf-8").splitlines()))


def _trace(source: Source) -> Mapping[str, Any]:
    trace: Any = source
    if isinstance(source, str | Path):
        data = Path(source).read_bytes()
        trace = json.loads(gzip.decompress(data) if Path(source).suffix == ".gz" else data)
    elif not isinstance(source, Mapping):
        trace = trace_of(source)
    if not isinstance(trace, Mapping) or "traceEvents" not in trace:
        raise ValueError("read_trace wants a trace with the entry 'traceEvents'")
    return trace


def _from_zero(events: list[Event]) -> list[Event]:
    origin_ns = events[0]["start_ns"]
    for event in events:
        event["start_ns"] -= origin_ns
        event["end_ns"] -= origin_ns
        if event["launch_ns"] is not None:
            event["launch_ns"] -= origin_ns
    return events
