"""What units 09 and 10 say of recorded steps: who is late, and which messages are exposed."""

import math

import pytest

from course_utils.formulas.ddp_buckets import ddp_buckets
from course_utils.records.traces import recorded_trace
from course_utils.reference.late_rank import who_is_late
from course_utils.reference.step_trace import exposed_by_kind
from course_utils.traces import (
    COMPUTE,
    busy_seconds,
    by_rank,
    communicating,
    computing,
    exposed_seconds,
    last_rank,
    matched,
    queue_seconds,
    select,
    span_seconds,
    waiting_seconds,
)

EIGHT = "h100x8_nanogpt_8ranks"
MS = 10**6  # nanoseconds of a millisecond


def test_the_straggler_of_eight_ranks_is_late_on_its_cpu():
    events = recorded_trace(EIGHT)
    calls = matched(events)
    for rank, own in by_rank(events).items():
        found = who_is_late(communicating(events), rank)
        waiting = math.fsum(waiting_seconds(call)[rank] for call in calls)
        assert found["straggler"] == 1
        assert found["waiting_ns"] == round(1e9 * waiting)
        assert busy_seconds(computing(own)) == pytest.approx(31.75e-3, abs=0.25e-3)
    saved = sum(
        sorted(each["start_ns"] for each in call)[-1] - sorted(e["start_ns"] for e in call)[-2]
        for call in calls
        if last_rank(call) == 1
    )
    assert found["saved_ns"] == saved == round(9.2749 * MS)
    assert round(1e3 * span_seconds(events), 1) == 48.4
    last_gathers = {each["rank"]: queue_seconds(each) for each in calls[-1]}
    assert [round(1e6 * last_gathers[1]), round(1e3 * last_gathers[3])] == [15, 39]


def test_hooks_send_nothing_before_a_compiled_backward_pass_is_over():
    events = recorded_trace("h100x8_nanogpt_after")
    backward_end = max(each["end_ns"] for each in select(events, kind=COMPUTE, phase="backward"))
    first = min(each["start_ns"] for each in communicating(events))
    assert round((first - backward_end) / MS, 2) == 0.16


@pytest.mark.parametrize("run", ["before", "after"])
def test_gathers_and_scatters_are_exposed_one_after_the_other(run):
    events = select(recorded_trace(f"h100x8_nanogpt_{run}"), kind=(*COMPUTE, "communication"))
    found = exposed_by_kind(events)
    exposed = round(1e9 * exposed_seconds(events))
    assert found["exposed_gathers_ns"] + found["exposed_scatters_ns"] == exposed


def test_a_rule_of_ddp_gives_the_buckets_of_resnet():
    shapes, inputs = [64 * 3 * 49, 64, 64], 64
    for num_blocks, width in ((3, 64), (4, 128), (6, 256), (3, 512)):
        for block in range(num_blocks):
            shapes += [inputs * width, width, width, 9 * width**2, width, width]
            shapes += [4 * width**2, 4 * width, 4 * width]
            shapes += [4 * width * inputs, 4 * width, 4 * width] if block == 0 else []
            inputs = 4 * width
    sizes = [4 * each for each in (*shapes, 1000 * inputs, 1000)]
    recorded = select(recorded_trace("a100x2_resnet50_ddp_buckets"), name="*AllReduce*")
    backwards = list(reversed(range(len(sizes))))
    _, later = ddp_buckets(sizes, backwards, 2**20, 25 * 2**20, finds_unused=False)
    assert later == [each["bytes"] for each in recorded]
