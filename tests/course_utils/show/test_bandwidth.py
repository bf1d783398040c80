"""The picture of bus bandwidth by nodes."""

import pytest

from course_utils.planner import MISSION
from course_utils.records.traces import recorded_rows
from course_utils.show import bandwidth_over_nodes
from course_utils.show.bandwidth import (
    BETWEEN_SECONDS,
    INSIDE_SECONDS,
    MEAN_SECONDS,
    _ring_bus_bandwidth,
)
from tests.notebooks.filling import ROOT

UNIT = "11_tensor_and_context_parallelism"


def tensor_parallel_bytes(tensor_bytes: int, num_ranks: int) -> int:
    """Of a rank and layer: four all-reduces of a ring."""
    return 8 * tensor_bytes * (num_ranks - 1) // num_ranks


def test_the_caption_has_the_records_numbers_and_the_rings():
    caption = bandwidth_over_nodes().caption
    assert "436 GB/s in one node, 362 on two, 100 on eight, 33 on 64" in caption
    assert "10 µs on every hop would reach 200 on eight, with 1.1 µs inside a node 328." in caption


def test_the_latency_inside_a_node_is_that_of_the_smallest_recorded_message():
    smallest = min(
        (row["bytes"], row["latency_seconds"])
        for row in recorded_rows("nccl_rates")
        if (row["op"], row["gpus"]) == ("all_reduce", 8) and row["device"].startswith("H100")
    )
    assert smallest == (512, pytest.approx(14 * INSIDE_SECONDS, rel=0.02))


def test_the_text_of_unit_11_says_what_the_rings_reach_and_what_the_records_have():
    text = (ROOT / "solutions" / UNIT / f"{UNIT}.py").read_text("utf-8")
    by_op = {
        (row["op"], row["bytes"]): row["bytes"] / row["latency_seconds"] / 1e9
        for row in recorded_rows("nccl_rates")
        if row["gpus"] == 8 and row["device"].startswith("H100")
    }
    for op, num_bytes in by_op:
        by_op[op, num_bytes] *= (2 if op == "all_reduce" else 1) * 7 / 8
    sent = 32 * tensor_parallel_bytes(8192 * 4096 * 2, 8)
    halves = {op: by_op[op, 2**28] for op in ("all_reduce", "all_gather", "reduce_scatter")}
    wanted = [f"{halves['all_reduce']:.0f} GB/s for the all-reduce and "]
    wanted += [f"{halves['all_gather']:.0f} and {halves['reduce_scatter']:.0f} for all-gather"]
    for op, days in (("all_reduce", "5.9"), ("all_gather", "7.6")):
        seconds = sent / by_op[op, 2**26] / 1e9
        assert f"{MISSION.num_tokens / MISSION.seq_len * seconds / 86_400:.1f}" == days
        wanted += [f"reach {by_op[op, 2**26]:.0f}", f"{1e3 * seconds:.0f} ms", f"{days} days"]
    rings = [_ring_bus_bandwidth(512, each) for each in (BETWEEN_SECONDS, MEAN_SECONDS)]
    wanted += [f"it reaches {rings[0]:.0f} GB/s on 64 nodes", f"then it reaches {rings[1]:.0f}."]
    assert [each for each in wanted if each not in text] == []
