"""How many bytes does an allocator allocate and reserve, request by request?"""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from course_utils import colours
from course_utils.instruments import MemoryTrace
from course_utils.quantities import BYTES, format_bytes, unit_of
from course_utils.show.memory_over_time import MAX_COLUMNS, mark_start
from course_utils.show.picture import Picture, axes, legend_above


def allocator_levels(
    trace: MemoryTrace, allocated_bytes: Sequence[int], reserved_bytes: Sequence[int]
) -> Picture:
    """Allocated and reserved bytes over the requests of a trace, with the training steps marked.

    Args:
        trace: The allocator served its ``requests()``.
        allocated_bytes: Bytes of blocks in use after each request.
        reserved_bytes: Bytes of segments after each request.

    Raises:
        ValueError: If the numbers of levels and requests differ.
    """
    requests = trace.request_operations()
    if not len(requests) == len(allocated_bytes) == len(reserved_bytes):
        raise ValueError(
            f"allocator_levels: wanted one level for each of the trace's {len(requests):,} "
            f"requests, got {len(allocated_bytes):,} and {len(reserved_bytes):,}"
        )
    figure, ax = axes()
    unit_bytes, unit = unit_of(max(reserved_bytes), BYTES)
    _draw_levels(ax, allocated_bytes, reserved_bytes, unit_bytes)
    _mark_steps(ax, trace)
    ax.set(xlim=(1, len(requests)), ylim=(0, 1.2 * max(reserved_bytes) / unit_bytes))
    ax.set(xlabel="request", ylabel=f"memory in {unit}")
    ax.xaxis.set_major_formatter("{x:,.0f}")
    legend_above(ax, 2)
    return Picture(figure, _caption(trace, allocated_bytes, reserved_bytes))


def _draw_levels(
    ax: Any, allocated_bytes: Sequence[int], reserved_bytes: Sequence[int], unit_bytes: float
) -> None:
    """Draw allocated bytes as an area, and reserved bytes as a line."""
    columns = _columns(allocated_bytes)
    allocated = [each / unit_bytes for each in columns.values()]
    area = {"color": colours.NEUTRAL, "linewidth": 0, "label": "allocated"}
    ax.fill_between(list(columns), allocated, step="post", **area)
    requests = range(1, len(reserved_bytes) + 1)
    reserved = [each / unit_bytes for each in reserved_bytes]
    ax.step(requests, reserved, where="post", color=colours.MEASURED, lw=1, label="reserved")


def _mark_steps(ax: Any, trace: MemoryTrace) -> None:
    """Mark the first request of each training step."""
    operations = trace.request_operations()
    for phase in trace.phases:
        if phase.name == "forward":
            start = 1 + bisect_left(operations, phase.start)
            mark_start(ax, start, f"step {phase.step}", linewidth=0.8)


def _columns(levels: Sequence[int]) -> dict[int, int]:
    """The maximum of each stretch, by its first request: even a peak of one request is visible."""
    width = -(-len(levels) // MAX_COLUMNS)
    starts = range(0, len(levels), width)
    return {1 + start: max(levels[start : start + width]) for start in starts}


def _caption(trace: MemoryTrace, allocated: Sequence[int], reserved: Sequence[int]) -> str:
    operations = zip(trace.request_operations(), pairwise([0, *reserved]), strict=True)
    reserving = [operation for operation, (old, new) in operations if new > old]
    starts = [phase.start for phase in trace.phases if phase.name == "forward"]
    by_step = Counter(max(1, bisect_right(starts, operation)) for operation in reserving)
    times = ", ".join(f"{by_step[n]:,} times in step {n}" for n in range(1, len(starts) + 1))
    return (
        f"At most {format_bytes(max(allocated))} are allocated and {format_bytes(max(reserved))} "
        f"reserved; the device is asked {times}."
    )
