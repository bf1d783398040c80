"""Busy, hidden, exposed, idle and queued: by hand, and with an independent oracle."""

import random

import pytest

from course_utils.traces import (
    GPU_WORK,
    busy_seconds,
    by_rank,
    communicating,
    computing,
    exposed_seconds,
    idle_spans,
    made,
    outermost,
    queue_seconds,
    select,
    span_seconds,
)

GEMM, NCCL = "kernel", "communication"
BY_HAND = {
    # events in microseconds: computation, communication, exposed
    "computation alone": ([(GEMM, 0, 10)], (10, 0, 0)),
    "communication alone": ([(NCCL, 0, 10)], (0, 10, 10)),
    "one after the other, touching": ([(GEMM, 0, 10), (NCCL, 10, 14)], (10, 4, 4)),
    "the end of one over the start of the other": ([(GEMM, 0, 10), (NCCL, 6, 12)], (10, 6, 2)),
    "all hidden": ([(GEMM, 0, 10), (NCCL, 3, 5)], (10, 2, 0)),
    "computation inside communication": ([(GEMM, 3, 5), (NCCL, 0, 10)], (2, 10, 8)),
    "nested computation counts once": ([(GEMM, 0, 10), (GEMM, 2, 4), (NCCL, 3, 12)], (10, 9, 2)),
    "touching computation is one stretch": ([(GEMM, 0, 5), (GEMM, 5, 9), (NCCL, 4, 6)], (9, 2, 0)),
    "two streams of each": (
        [(GEMM, 0, 6), (GEMM, 4, 8), ("compute", 20, 22), (NCCL, 5, 12), (NCCL, 10, 21)],
        (10, 16, 12),
    ),
    "copies hide nothing": ([("memcpy", 0, 10), (GEMM, 0, 1), (NCCL, 0, 10)], (1, 10, 9)),
    "operators compute where there is no kernel": ([("cpu_op", 0, 7), (NCCL, 5, 9)], (7, 4, 2)),
    "and do not where there is one": ([("cpu_op", 0, 7), (GEMM, 6, 8), (NCCL, 5, 9)], (2, 4, 2)),
    "fractions of a microsecond": ([(GEMM, 0.5, 2.25), (NCCL, 1.125, 3.0)], (1.75, 1.875, 0.75)),
}


def events_of(spans):
    return [
        made(kind=kind, start_ns=round(1000 * start), end_ns=round(1000 * end), lane=f"gpu:{n}")
        for n, (kind, start, end) in enumerate(spans)
    ]


def seconds(events):
    of_each = (busy_seconds(computing(events)), busy_seconds(communicating(events)))
    return (*of_each, exposed_seconds(events))


@pytest.mark.parametrize(("spans", "microseconds"), BY_HAND.values(), ids=BY_HAND)
def test_by_hand(spans, microseconds):
    expected = tuple(1000 * each / 1e9 for each in microseconds)
    assert seconds(events_of(spans)) == expected
    assert seconds(events_of(spans)[::-1]) == expected


@pytest.mark.parametrize("seed", range(20))
def test_each_nanosecond_by_itself(seed):
    """An independent oracle: look at every nanosecond, and ask what ran in it."""
    rng = random.Random(seed)
    starts = [(rng.choice((GEMM, NCCL)), rng.randrange(90)) for _ in range(rng.randrange(1, 15))]
    events = [made(kind=k, start_ns=at, end_ns=at + rng.randrange(12)) for k, at in starts]
    ran = [{e["kind"] for e in events if e["start_ns"] <= at < e["end_ns"]} for at in range(110)]
    computes = any(e["kind"] == GEMM for e in events)
    expected = (
        sum(GEMM in each for each in ran) if computes else 0,
        sum(NCCL in each for each in ran),
        sum(each == {NCCL} for each in ran),
    )
    assert seconds(events) == tuple(each / 1e9 for each in expected)
    first, last = min(e["start_ns"] for e in events), max(e["end_ns"] for e in events)
    assert span_seconds(events) == (last - first) / 1e9
    idle = {at for start, end in idle_spans(events) for at in range(int(start), int(end))}
    assert idle == {at for at in range(first, last) if not ran[at]}


def test_calls_of_c10d_only_start_what_gloo_does():
    calls = made(kind="cpu_op", name="c10d::allreduce_", end_ns=9)
    assert exposed_seconds([calls, made(kind=NCCL, name="gloo:all_reduce", end_ns=9)]) == 9e-9


def test_nothing_lasts_no_time():
    assert busy_seconds([]) == exposed_seconds([]) == span_seconds([]) == 0
    assert idle_spans([]) == []


def test_several_ranks_are_refused():
    events = [made(rank=0, end_ns=1), made(rank=3, end_ns=1)]
    with pytest.raises(ValueError, match=r"one rank, got ranks \[0, 3\]"):
        busy_seconds(events)
    assert [busy_seconds(each) for each in by_rank(events).values()] == [1e-9, 1e-9]


def test_a_queue_needs_a_launch():
    assert queue_seconds(made(start_ns=900, end_ns=950, launch_ns=-100)) == 1e-6
    with pytest.raises(ValueError, match="'gemm' has no launch_ns"):
        queue_seconds(made(name="gemm"))


def test_select_takes_patterns_and_collections():
    events = [
        made(0, "gpu:7", "kernel", "gemm", phase="L0.mlp"),
        made(1, "gpu:9", "communication", "AllReduce", phase="L1.mlp"),
        made(2, "cpu", "cpu_op", "aten::mm", phase="L1.attn"),
        made(2, "gpu:7", "memcpy", "a[0]*"),
    ]

    def places(**chosen):
        return [events.index(each) for each in select(events, **chosen)]

    assert places() == [0, 1, 2, 3]
    assert places(rank=2) == [2, 3]
    assert places(rank={0, 1}, lane="gpu:*") == [0, 1]
    assert places(kind=GPU_WORK) == [0, 1, 3]
    assert places(name=["gemm", "aten::*"], phase="L*") == [0, 2]
    assert places(name="a[0]*") == [3]  # a name is found by itself, whatever letters it has
    assert places(kind="sync") == []


def test_what_runs_in_another_event_of_its_lane_is_not_outermost():
    spans = [("linear", 0, 9), ("addmm", 1, 8), ("sum", 9, 12), ("add", 20, 21), ("empty", 9, 9)]
    events = [made(lane="cpu", name=n, start_ns=a, end_ns=b) for n, a, b in spans]
    elsewhere = [made(lane="cpu:1", name="other", start_ns=2, end_ns=3)]
    found = [each["name"] for each in outermost([*events[::-1], *elsewhere])]
    assert found == ["linear", "other", "sum", "add"]
