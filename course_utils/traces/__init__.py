"""Traces: what ran where from when to when, on recorded devices and on a student's own.

>>> from course_utils.records.traces import recorded_trace
>>> one_rank = select(recorded_trace("h100x8_nanogpt_before"), rank=0)
>>> round(1e3 * exposed_seconds(one_rank), 2)
4.38
"""

from course_utils.traces.collectives import (
    bus_bytes_per_second,
    collective_of,
    last_rank,
    matched,
    transfer_seconds,
    waiting_seconds,
)
from course_utils.traces.event import (
    COMPUTE,
    CPU_WORK,
    GPU_WORK,
    KINDS,
    Event,
    by_rank,
    made,
    outermost,
    select,
)
from course_utils.traces.perfetto import write_perfetto
from course_utils.traces.profiler import trace_of
from course_utils.traces.reading import read_trace
from course_utils.traces.table import write_table
from course_utils.traces.times import (
    busy_seconds,
    communicating,
    computing,
    exposed_seconds,
    idle_spans,
    queue_seconds,
    seconds_of,
    span_seconds,
)
