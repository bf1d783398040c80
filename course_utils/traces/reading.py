"""One reader for every trace: recorded tables, a profiler's files and objects, and Perfetto's."""

import gzip
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from course_utils.traces.chrome import profiled_events
from course_utils.traces.event import Event
from course_utils.traces.perfetto import is_from_here, perfetto_events
from course_utils.traces.profiler import Profiler, trace_of
from course_utils.traces.table import events_of, table_rows

Source = str | Path | Mapping[str, Any] | Profiler


def read_trace(*sources: Source) -> list[Event]:
    """The events of a trace, in the order of their start, the first at zero.

    A table and a file for Perfetto keep their own clock and order.

    Args:
        sources: One, or one for each rank: a table's path (``.csv``), that of a trace in Chrome's
            format (``.json`` or ``.json.gz``), the trace itself as `profile` of the course has it,
            a `torch.profiler.profile` that has stopped, or a row with a ``table``, as
            `tests.gpu.measure` records it.

    Raises:
        ValueError: If one is no trace, or has no event that is known.
    """
    tables = [lines for source in sources if (lines := _table_of(source))]
    if tables:
        return [event for lines in tables for event in events_of(table_rows(lines))]
    traces = [_trace(source) for source in sources]
    if all(map(is_from_here, traces)):
        return [event for trace in traces for event in perfetto_events(trace)]
    events = [e for place, trace in enumerate(traces) for e in profiled_events(trace, place)]
    if not events:
        raise ValueError("read_trace found no kernel and no operator in the trace")
    return _from_zero(sorted(events, key=lambda event: (event["start_ns"], -event["end_ns"])))


def _table_of(source: Source) -> Sequence[str]:
    """The lines of a table; none if it is a trace."""
    if isinstance(source, str | Path) and Path(source).suffix == ".csv":
        return Path(source).read_text(encoding="utf-8").splitlines()
    lines: Sequence[str] = source.get("table", ()) if isinstance(source, Mapping) else ()
    return lines


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
