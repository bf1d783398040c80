"""One collective on all ranks: who came last, who waited, and how fast the data moved."""

import pytest

from course_utils.traces import (
    bus_bytes_per_second,
    collective_of,
    last_rank,
    made,
    matched,
    transfer_seconds,
    waiting_seconds,
)

NAMES = {
    "ncclDevKernel_AllReduce_Sum_bf16_RING_LL": "all_reduce",
    "multimem_all_reduce_kernel": "all_reduce",
    "gloo:all_reduce": "all_reduce",
    "ncclDevKernel_ReduceScatter_Sum_f32_RING_LL": "reduce_scatter",
    "ncclDevKernel_AllGather_RING_LL": "all_gather",
    "ncclDevKernel_SendRecv": "all_to_all",
    "ncclKernel_Broadcast_RING_LL_Sum_int8_t": "broadcast",
}


def collective(name, rank, start, end, num_bytes=64):
    return made(rank, "gpu:9", "communication", name, start, end, num_bytes)


@pytest.mark.parametrize(("name", "expected"), NAMES.items())
def test_a_kernel_tells_its_collective(name, expected):
    assert collective_of(made(name=name)) == expected


def test_a_name_that_tells_nothing_is_refused():
    with pytest.raises(ValueError, match="'gemm' is none of all_reduce, reduce_scatter"):
        collective_of(made(name="gemm"))


@pytest.mark.parametrize(
    ("name", "factor"),
    [("AllReduce", 2 * 3 / 4), ("AllGather", 3 / 4), ("ReduceScatter", 3 / 4), ("Broadcast", 1)],
)
def test_bus_bandwidth_counts_what_a_link_carries(name, factor):
    event = collective(name, 0, 0, 2_000, num_bytes=8_000)  # 4 bytes in a nanosecond
    assert bus_bytes_per_second(event, 4) == pytest.approx(4e9 * factor, rel=1e-12)
    alone = bus_bytes_per_second(event, 4, seconds=1e-6)
    assert alone == pytest.approx(8e9 * factor, rel=1e-12)


def test_a_bandwidth_needs_bytes():
    with pytest.raises(ValueError, match="'AllReduce' has no bytes"):
        bus_bytes_per_second(collective("AllReduce", 0, 0, 1, num_bytes=0), 2)


def test_the_nth_of_a_rank_is_the_nth_of_the_others():
    first = [collective("AllReduce", rank, 10 * rank, 50) for rank in (2, 0, 1)]
    second = [collective("AllGather", rank, 60, 70 + rank) for rank in (1, 2, 0)]
    compute = made(rank=1, end_ns=100)
    found = matched([*second, compute, *first])
    assert [[e["rank"] for e in each] for each in found] == [[0, 1, 2], [0, 1, 2]]
    assert [each[0]["name"] for each in found] == ["AllReduce", "AllGather"]
    assert last_rank(found[0]) == 2
    assert transfer_seconds(found[0]) == 30e-9
    assert waiting_seconds(found[0]) == {0: 20e-9, 1: 10e-9, 2: 0.0}


def test_different_collectives_are_refused():
    events = [collective("AllReduce", 0, 0, 5), collective("AllGather", 1, 0, 5)]
    with pytest.raises(ValueError, match="ranks 0 and 1 ran different collectives: 1 and 1"):
        matched(events)
