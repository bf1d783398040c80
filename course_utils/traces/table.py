"""Events as a table in a file: comment lines that say what ran, and a row for each event.

Columns: ``rank, lane, kind, name, start_us, duration_us, bytes, phase, launch_us``; microseconds,
with as many digits as the source has; what is not recorded is empty.
"""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from course_utils.traces.event import Event

COLUMNS = (
    "rank",
    "lane",
    "kind",
    "name",
    "start_us",
    "duration_us",
    "bytes",
    "phase",
    "launch_us",
)


def table_rows(lines: Iterable[str]) -> list[dict[str, str]]:
    """The rows of a table with comments above it, as they stand in the file."""
    return list(csv.DictReader(line for line in lines if not line.startswith("#")))


def events_of(rows: Iterable[Mapping[str, str]]) -> list[Event]:
    """The events of the rows of a table."""
    return [_event(row) for row in rows]


def table_lines(events: Iterable[Event]) -> list[str]:
    """The lines of a table without comments: names of the columns, and each event."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(_row(event) for event in events)
    return text.getvalue().splitlines()


def write_table(events: Iterable[Event], path: str | Path, about: Sequence[str]) -> None:
    """Write events as a table.

    Args:
        events: In the order of the rows.
        path: Of a CSV file.
        about: Comment lines without their ``#``: what ran, source, licence, units, what was cut.
    """
    lines = [*(f"# {line}" for line in about), *table_lines(events)]
    Path(path).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def ns_of(microseconds: float | str) -> int:
    """Whole nanoseconds of microseconds with a point."""
    return round(1000 * float(microseconds))


def _event(row: Mapping[str, str]) -> Event:
    start_ns = ns_of(row["start_us"])
    return Event(
        rank=int(row["rank"]),
        lane=row["lane"],
        kind=row["kind"],
        name=row["name"],
        start_ns=start_ns,
        end_ns=start_ns + ns_of(row["duration_us"]),
        bytes=int(row["bytes"] or 0),
        phase=row["phase"],
        launch_ns=ns_of(row["launch_us"]) if row["launch_us"] else None,
    )


def _row(event: Event) -> list[str | int]:
    launch = "" if event["launch_ns"] is None else _us(event["launch_ns"])
    times = (_us(event["start_ns"]), _us(event["end_ns"] - event["start_ns"]))
    named = (event["rank"], event["lane"], event["kind"], event["name"])
    return [*named, *times, event["bytes"] or "", event["phase"], launch]


def _us(ns: int) -> str:
    """Microseconds with the digits that are needed."""
    return f"{ns / 1000:.3f}".rstrip("0").rstrip(".")
