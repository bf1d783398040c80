"""What does an allocator hold, request by request, beside what it was asked for?"""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from course_utils import colours
from course_utils.instruments import MemoryTrace
from course_utils.show.memory import MAX_COLUMNS, UNITS, bytes_as_read
from course_utils.show.picture import Picture, axes


def allocator_levels(
    trace: MemoryTrace, allocated_bytes: Sequence[int], reserved_bytes: Sequence[int]
) -> Picture:
    """Allocated and reserved bytes over the requests of a trace, with the training steps marked.

    Args:
        trace: Whose ``requests()`` were played.
        allocated_bytes: After each request, of the blocks in use.
        reserved_bytes: After each request, of the segments.

    Raises:
        ValueError: If there are not as many levels as requests.
    """
    requests = trace.request_operations()
    if not len(requests) == len(allocated_bytes) == len(reserved_bytes):
        raise ValueError(
            f"allocator_levels: wanted one level for each of the trace's {len(requests):,} "
            f"requests, got {len(allocated_bytes):,} and {len(reserved_bytes):,}"
        )
    figure, pair = axes()
    unit = bytes_as_read(max(reserved_bytes)).split()[1]
    size = 1024 ** UNITS.index(unit)
    numbers = range(1, len(requests) + 1)
    columns = _columns(allocated_bytes)
    pair.fill_between(
        list(columns),
        [each / size for each in columns.values()],
        step="post",
        color=colours.NEUTRAL,
        linewidth=0,
        label="allocated",
    )
    reserved = [each / size for each in reserved_bytes]
    pair.step(numbers, reserved, where="post", color=colours.MEASURED, lw=1, label="reserved")
    for phase in trace.phases:
        if phase.name == "forward":
            start = 1 + bisect_left(requests, phase.start)
            pair.axvline(start, color=colours.NEUTRAL, linewidth=0.8)
            at_top = {"xycoords": ("data", "axes fraction"), "va": "top", "color": colours.NEUTRAL}
            pair.annotate(f" step {phase.step}", (start, 1.0), **at_top)
    pair.set_xlim(1, len(requests))
    pair.set_ylim(0, 1.2 * max(reserved))
    pair.set_xlabel("request")
    pair.set_ylabel(f"memory in {unit}")
    pair.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    pair.legend(frameon=False, ncols=2, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    return Picture(figure, _caption(trace, allocated_bytes, reserved_bytes))


def _columns(levels: Sequence[int]) -> dict[int, int]:
    """The most of each stretch of requests, by its first: a peak of one request is seen too."""
    width = -(-len(levels) // MAX_COLUMNS)
    stretches = range(0, len(levels), width)
    return {1 + start: max(levels[start : start + width]) for start in stretches}


def _caption(trace: MemoryTrace, allocated: Sequence[int], reserved: Sequence[int]) -> str:
    operations = zip(trace.request_operations(), pairwise([0, *reserved]), strict=True)
    asked = [operation for operation, (old, new) in operations if new > old]
    starts = [phase.start for phase in trace.phases if phase.name == "forward"]
    before = sum(operation == 0 for operation in trace.request_operations())
    by_step = Counter(max(1, bisect_right(starts, operation)) for operation in asked)
    times = ", ".join(f"{by_step[n]:,} times in step {n}" for n in range(1, len(starts) + 1))
    return (
        f"{len(reserved):,} requests, the first {before:,} for what is there before step 1: "
        f"at most {bytes_as_read(max(allocated))} are allocated and "
        f"{bytes_as_read(max(reserved))} reserved. The device is asked {times}."
    )
