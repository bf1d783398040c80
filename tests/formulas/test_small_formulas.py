"""Bytes, memories and seconds, each against a number that can be checked with a pencil."""

from course_utils.formulas.memory import four_memories
from course_utils.formulas.step_time import step_seconds
from course_utils.formulas.tensors import tensor_bytes


def test_tensor_bytes():
    # 4 * 2,048 * 1,024 = 2**23 numbers of 2 bytes = 2**24 bytes
    assert tensor_bytes((4, 2048, 1024), 2) == 2**24
    assert tensor_bytes((), 4) == 4
    assert tensor_bytes((3, 0, 5), 4) == 0


def test_step_seconds():
    # 4 * 1,000 tokens * 6e9 FLOPs = 2.4e13 FLOPs; at 1e14 FLOP/s 0.24 s
    assert step_seconds(4, 1000, 6 * 10**9, 10**14) == 0.24


def test_four_memories():
    # 100 + 40 = 140 allocated; + 10 = 150 reserved; + 500 = 650 seen by the driver
    live = {"parameters": 100, "saved_for_backward": 40}
    assert four_memories(live, 10, 500) == {
        "saved_bytes": 40,
        "allocated_bytes": 140,
        "reserved_bytes": 150,
        "driver_bytes": 650,
    }
