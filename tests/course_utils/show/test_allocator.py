"""The picture of an allocator's levels says how much is reserved, and in which step."""

from itertools import pairwise

import pytest

from course_utils.configs import RunConfig, precision
from course_utils.instruments import MemoryTrace, trace_memory
from course_utils.quantities import format_bytes
from course_utils.reference import Training
from course_utils.reference.allocator import MIB, CachingAllocator, Levels
from course_utils.show import allocator_levels
from tests.course_utils.show.texts import overlapping_texts
from tests.random_models import random_model


@pytest.fixture(scope="module")
def trace() -> MemoryTrace:
    run = RunConfig(seq_len=8, precision=precision("fp32"))
    training = Training(random_model("grouped", 1), run)
    return trace_memory(training.step, *training.owners, num_steps=3)


@pytest.fixture(scope="module")
def levels(trace: MemoryTrace) -> list[Levels]:
    return CachingAllocator().play_script(trace.script())


def drawn(trace, levels):
    allocated, reserved, _ = zip(*levels, strict=True)
    return allocator_levels(trace, allocated, reserved)


def test_the_caption_says_in_which_step_memory_is_reserved(trace, levels):
    """All tensors fit in the small pool, so every segment has 2 MiB."""
    ends = [phase.stop for phase in trace.phases if phase.name == "step"]
    requests = [0, *(num_before(trace, end) for end in ends)]
    reserved = [0, *(levels[number - 1].reserved_bytes for number in requests[1:])]
    first, second, third = ((after - before) // (2 * MIB) for before, after in pairwise(reserved))
    assert drawn(trace, levels).caption == (
        f"At most {format_bytes(max(each.allocated_bytes for each in levels))} are allocated and "
        f"{format_bytes(max(reserved))} reserved; the device is asked {first} times in step 1, "
        f"{second} times in step 2, {third} times in step 3."
    )
    assert first > 0


def num_before(trace: MemoryTrace, operation: int) -> int:
    """Requests before an operation: allocations and releases."""
    born = sum(each.born < operation for each in trace.storages)
    return born + sum(each.died is not None and each.died < operation for each in trace.storages)


def test_every_step_is_marked_where_its_requests_begin(trace, levels):
    ax = drawn(trace, levels).figure.axes[0]
    assert [text.get_text() for text in ax.texts] == ["step 1", "step 2", "step 3"]
    starts = [text.xy[0] for text in ax.texts]
    num_before_start = sum(each.born == 0 for each in trace.storages)
    assert starts[0] == 1 + num_before_start
    assert starts == sorted(starts)


def test_the_lines_are_the_levels(trace, levels):
    ax = drawn(trace, levels).figure.axes[0]
    reserved = ax.lines[0].get_ydata() * MIB
    assert list(reserved) == [each.reserved_bytes for each in levels]


def test_a_peak_of_one_request_is_visible(trace, levels):
    ax = drawn(trace, levels).figure.axes[0]
    (area,) = ax.collections
    highest = max(path.get_extents().y1 for path in area.get_paths())
    assert highest * MIB == max(each.allocated_bytes for each in levels)


def test_no_text_overlaps(trace, levels):
    assert overlapping_texts(drawn(trace, levels).figure) == []


def test_levels_of_another_trace_raise(trace, levels):
    with pytest.raises(ValueError, match="wanted one level for each of the trace's"):
        drawn(trace, levels[:-1])
