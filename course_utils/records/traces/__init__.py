"""Recorded traces, memory and rates of real devices; others measured them, but for one.

The first lines of each file say what ran, its source and licence, its units and what was cut.

    >>> before = recorded_trace("h100x8_nanogpt_before")
    >>> max(row["flops_per_second"] for row in recorded_rows("attention_prefill_rates"))
    1404000000000000.0

Two sources have no licence. Of them only sums and single numbers are here: ``deepseek_v3_sums`` and
``llama8b_oom_numbers``.
"""

import functools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from course_utils.records import sweeps
from course_utils.traces import Event, read_trace
from course_utils.traces.table import COLUMNS, table_rows

FOLDER = Path(__file__).parent

# What ends the name of a column, what that becomes, and by what its numbers are multiplied and
# divided.
UNITS = {
    "us": ("seconds", 1, 10**6),
    "ms": ("seconds", 1, 1000),
    "s": ("seconds", 1, 1),
    "minutes": ("seconds", 60, 1),
    "tflops": ("flops_per_second", 10**12, 1),
    "gb_s": ("bytes_per_second", 10**9, 1),
    "mib": ("bytes", 2**20, 1),
    "gib": ("bytes", 2**30, 1),
}
WITH_UNIT = re.compile(rf"(?:(.*?)_)?({'|'.join(UNITS)})")
GOES_ON = {"gemm_rates": "h100_gemm_rates", "nccl_rates": "h100_nccl_rates"}  # in `sweeps`

Row = dict[str, Any]


def records() -> list[dict[str, str]]:
    """What each record is and where it comes from, one row each: ``name``, ``what``, ``source``…"""
    return [{"name": path.stem, **about(path.stem)} for path in sorted(FOLDER.glob("*.csv"))]


def about(name: str) -> dict[str, str]:
    """What stands above a table: ``what``, ``source``, ``licence``, ``units``, ``cut`` and more."""
    first, *others = (line[2:] for line in _lines(name) if line.startswith("#"))
    said = (line.partition(": ") for line in others)
    return {"what": first, **{key: text for key, _, text in said}}


@functools.cache
def trace_names() -> tuple[str, ...]:
    """The names of all recorded traces."""
    return tuple(
        path.stem for path in sorted(FOLDER.glob("*.csv")) if ",".join(COLUMNS) in _lines(path.stem)
    )


def recorded_trace(name: str) -> list[Event]:
    """The events of a recorded trace, new ones with each call.

    Args:
        name: One of `trace_names`.

    Raises:
        ValueError: If there is no such trace.
    """
    if name not in trace_names():
        raise ValueError(f"there is no trace {name!r}, but {', '.join(trace_names())}")
    return [each.copy() for each in _events(name)]


def recorded_rows(name: str) -> list[Row]:
    """The rows of a table of rates or memory, with numbers in SI units, new ones with each call.

    The name of a column says its unit: ``latency_us`` has become ``latency_seconds``, ``tflops``
    ``flops_per_second``, ``busbw_gb_s`` ``busbw_bytes_per_second``, ``peak_gib`` ``peak_bytes``.
    What is not given is None.

    Args:
        name: Of a record that is no trace.

    Raises:
        ValueError: If there is no such record.
    """
    return [each.copy() for each in _rows(name)]


def recorded_memory(run: str) -> Iterator[tuple[float, dict[str, int]]]:
    """Live bytes by category after each change in the record ``mem_xl_step``, with its seconds.

    Args:
        run: ``"fp32"`` or ``"bf16 autocast"``.

    Raises:
        ValueError: If there is no such run.
    """
    rows = [row for row in recorded_rows("mem_xl_step") if row["run"] == run]
    if not rows:
        raise ValueError(f"there is no run {run!r}, but 'fp32' and 'bf16 autocast'")
    live: dict[str, int] = {}
    for row, following in zip(rows, [*rows[1:], None], strict=True):
        live[row["category"]] = row["bytes"]
        if following is None or following["time_seconds"] != row["time_seconds"]:
            yield row["time_seconds"], {name: size for name, size in live.items() if size}


@functools.cache
def _rows(name: str) -> list[Row]:
    more = sweeps.rows(GOES_ON[name]) if name in GOES_ON else ()
    return [dict(map(_in_si, row.items())) for row in (*table_rows(_lines(name)), *more)]


@functools.cache
def _events(name: str) -> tuple[Event, ...]:
    return tuple(read_trace(FOLDER / f"{name}.csv"))


@functools.cache
def _lines(name: str) -> tuple[str, ...]:
    path = FOLDER / f"{name}.csv"
    if not path.exists():
        raise ValueError(f"there is no record {name!r}: see records()")
    return tuple(path.read_text(encoding="utf-8").splitlines())


def _in_si(entry: tuple[str, str]) -> tuple[str, Any]:
    """A column and its value."""
    column, text = entry
    value = _number(text)
    found = WITH_UNIT.fullmatch(column)
    if found is None:
        return column, value
    unit, times, over = UNITS[found[2]]
    name = unit if found[1] is None else f"{found[1]}_{unit}"
    return name, None if value is None else value * times / over


def _number(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text or None
