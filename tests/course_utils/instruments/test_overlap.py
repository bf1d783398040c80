"""Seconds hidden and exposed: intervals drawn by hand, an independent oracle, and a real trace."""

import json
import random

import pytest
import torch
import torch.distributed as dist

from course_utils.instruments import measure_overlap, profile


def trace_of(*kernels):
    """Kernels as (name, from, to) in microseconds, with events around that do not count."""
    events = [
        {"ph": "X", "cat": "kernel", "name": name, "ts": start, "dur": stop - start, "tid": n}
        for n, (name, start, stop) in enumerate(kernels)
    ]
    around = [
        {"ph": "M", "name": "process_name"},
        {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 0, "dur": 1000},
        {"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy HtoD", "ts": 0, "dur": 1000},
    ]
    return {"traceEvents": [*around, *events]}


def microseconds(overlap):
    seconds = (
        overlap.computation_seconds,
        overlap.communication_seconds,
        overlap.hidden_seconds,
        overlap.exposed_seconds,
    )
    return tuple(round(1e6 * each, 3) for each in seconds)


NCCL = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL"
BY_HAND = {
    # kernels: computation, communication, hidden, exposed
    "computation alone": ([("gemm", 0, 10)], (10, 0, 0, 0)),
    "communication alone": ([(NCCL, 0, 10)], (0, 10, 0, 10)),
    "one after the other, touching": ([("gemm", 0, 10), (NCCL, 10, 14)], (10, 4, 0, 4)),
    "the end of one over the start of the other": ([("gemm", 0, 10), (NCCL, 6, 12)], (10, 6, 4, 2)),
    "all hidden": ([("gemm", 0, 10), (NCCL, 3, 5)], (10, 2, 2, 0)),
    "computation inside communication": ([("gemm", 3, 5), (NCCL, 0, 10)], (2, 10, 2, 8)),
    "nested computation counts once": (
        [("gemm", 0, 10), ("add", 2, 4), (NCCL, 3, 12)],
        (10, 9, 7, 2),
    ),
    "touching computation is one stretch": (
        [("gemm", 0, 5), ("gemm", 5, 9), (NCCL, 4, 6)],
        (9, 2, 2, 0),
    ),
    "two streams of each": (
        [("gemm", 0, 6), ("add", 4, 8), ("mul", 20, 22), (NCCL, 5, 12), (NCCL, 10, 21)],
        (10, 16, 4, 12),
    ),
    "fractions of a microsecond": (
        [("gemm", 0.5, 2.25), (NCCL, 1.125, 3.0)],
        (1.75, 1.875, 1.125, 0.75),
    ),
}


@pytest.mark.parametrize(("kernels", "expected"), BY_HAND.values(), ids=BY_HAND)
def test_by_hand(kernels, expected):
    assert microseconds(measure_overlap(trace_of(*kernels))) == expected
    assert microseconds(measure_overlap(trace_of(*reversed(kernels)))) == expected


@pytest.mark.parametrize("seed", range(20))
def test_each_microsecond_by_itself(seed):
    """An independent oracle: look at every microsecond, and ask what ran in it."""
    rng = random.Random(seed)
    starts = [(rng.choice(("gemm", NCCL)), rng.randrange(90)) for _ in range(rng.randrange(1, 15))]
    kernels = [(name, start, start + rng.randrange(12)) for name, start in starts]
    ran = [
        {name == NCCL for name, start, stop in kernels if start <= at < stop} for at in range(110)
    ]
    computing, communicating = (sum(which in each for each in ran) for which in (False, True))
    hidden = sum(len(each) == 2 for each in ran)
    expected = (computing, communicating, hidden, communicating - hidden)
    assert microseconds(measure_overlap(trace_of(*kernels))) == expected


def test_a_real_trace_of_a_cpu(tmp_path):
    """One rank that reduces beside a product; gloo's thread works while Python goes on."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    x, gradient = torch.ones(300, 300), torch.ones(10**6)

    def call():
        work = dist.all_reduce(gradient, async_op=True)
        for _ in range(5):
            x @ x
        work.wait()

    try:
        profiled = profile(call)
    finally:
        dist.destroy_process_group()
    found = measure_overlap(profiled.trace)
    assert found.computation_seconds > 0
    assert 0 <= found.hidden_seconds <= found.communication_seconds
    assert found.communication_seconds > 0
    profiled.write_trace(tmp_path / "trace.json")
    assert measure_overlap(tmp_path / "trace.json") == found


def test_what_is_no_trace_is_told(tmp_path):
    with pytest.raises(ValueError, match="wants a trace with the entry 'traceEvents'"):
        measure_overlap({"events": []})
    with pytest.raises(ValueError, match="found no kernel and no operator"):
        measure_overlap({"traceEvents": []})
    path = tmp_path / "list.json"
    path.write_text(json.dumps([1]), encoding="utf-8")
    with pytest.raises(ValueError, match="wants a trace"):
        measure_overlap(path)
