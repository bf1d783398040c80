"""What does an allocator hold, request by request, beside what it was asked for?"""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from course_utils import colours
from course_utils.instruments import MemoryTrace
from course_utils.show.memory import UNITS, bytes_as_read
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
    requests = _operations(trace)
    if not len(requests) == len(allocated_bytes) == len(reserved_bytes):
        raise ValueError(
            f"allocator_levels: wanted one level for each of the trace's {len(requests):,} "
            f"requests, got {len(allocated_bytes):,} and {len(reserved_bytes):,}"
        )
    figure, pair = axes()
    unit = bytes_as_read(max(reserved_bytes)).split()[1]
    size = 1024 ** UNITS.index(unit)
    numbers = range(1, len(requests) + 1)
    reserved, allocated = (
        [each / size for each in levels] for levels in (reserved_bytes, allocated_bytes)
    )
    pair.step(numbers, reserved, where="post", color=colours.NEUTRAL, label="reserved")
    # The line shows a peak of one request, which is too narrow an area to be seen.
    pair.step(numbers, allocated, where="post", color=colours.COMPUTED, linewidth=1)
    pair.fill_between(
        numbers, allocated, step="post", color=colours.COMPUTED, linewidth=0, label="allocated"
    )
    height = max(reserved_bytes) / size
    for phase in trace.phases:
        if phase.name == "forward":
            start = 1 + bisect_left(requests, phase.start)
            pair.axvline(start, color=colours.NEUTRAL, linewidth=0.8)
            pair.annotate(f" step {phase.step}", (start, 1.06 * height), color=colours.NEUTRAL)
    pair.set_xlim(1, len(requests))
    pair.set_ylim(0, 1.15 * height)
    pair.set_xlabel("request")
    pair.set_ylabel(f"memory in {unit}")
    pair.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    pair.legend(frameon=False, ncols=2, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    return Picture(figure, _caption(trace, allocated_bytes, reserved_bytes))


def _operations(trace: MemoryTrace) -> list[int]:
    """The operation before or at which each request is made, in order."""
    moments = [(each.born, each.died) for each in trace.storages if each.storage_bytes]
    return sorted(moment for pair in moments for moment in pair if moment is not None)


def _caption(trace: MemoryTrace, allocated: Sequence[int], reserved: Sequence[int]) -> str:
    operations = zip(_operations(trace), pairwise([0, *reserved]), strict=True)
    asked = [operation for operation, (old, new) in operations if new > old]
    starts = [phase.start for phase in trace.phases if phase.name == "forward"]
    by_step = Counter(max(1, bisect_right(starts, operation)) for operation in asked)
    times = ", ".join(f"{by_step[n]:,} times in step {n}" for n in range(1, len(starts) + 1))
    return (
        f"{len(reserved):,} requests: at most {bytes_as_read(max(allocated))} are allocated and "
        f"{bytes_as_read(max(reserved))} reserved. The device is asked {times}."
    )
