"""The rates are those of the operations that the roofline says, on one thread."""

import pytest
import torch

from course_utils.instruments import (
    count_bytes,
    count_flops,
    fake_tensors,
    fastest_seconds,
    measure_roofline,
    roofline,
)

CPU = torch.device("cpu")


def test_the_operations_do_what_the_rates_are_computed_from():
    moved = count_bytes(roofline.stream(CPU, 4096))
    assert [each.name for each in moved.operations] == ["add"]
    assert moved.num_bytes == 3 * 4096
    assert count_flops(roofline.product(CPU, 16)).forward_flops == 2 * 16**3


def test_rates_are_those_of_the_fastest_runs(monkeypatch):
    """The fastest products of the four rounds take 2, 4, 3 and half a second."""
    monkeypatch.setattr(roofline, "SIDE", 8)
    monkeypatch.setattr(roofline, "STREAM_BYTES", 64)
    ticks = iter([3, 2, 3, 3, 3, *[0.5] * 5, *[4] * 5, *[0.5] * 5, *[3] * 5, *[0.5] * 25])
    clock = [0.0]
    was_read = []

    def thread_time():
        was_read.append(torch.get_num_threads())
        clock[0] += next(ticks) if len(was_read) % 2 == 0 else 0.0
        return clock[0]

    monkeypatch.setattr(roofline.time, "thread_time", thread_time)
    measured = measure_roofline("cpu")
    assert set(was_read) == {1}
    assert measured.flops_per_second == 2 * 8**3 / 0.5
    assert measured.bytes_per_second == 3 * 64 / 0.5
    assert measured.spread == 4 / 0.5
    assert measured.ridge == measured.flops_per_second / measured.bytes_per_second
    assert repr(measured).startswith("Roofline: 2.05e-06 GFLOP/s and 3.84e-07 GB/s on CPU, ridge")


def test_fake_tensors_have_no_speed():
    with fake_tensors(), pytest.raises(ValueError, match="measures real work"):
        measure_roofline("cpu")


def test_the_fastest_run_counts_and_the_first_does_not(monkeypatch):
    """A warm-up of 1 s that is not timed; runs of 4, 2 and 3 s of this thread's own work."""
    seconds, clock = iter([1, 4, 2, 3]), [0.0]
    monkeypatch.setattr(roofline.time, "thread_time", lambda: clock[0])
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)

    def call():
        clock[0] += next(seconds)

    assert fastest_seconds(call, num_runs=3) == 2
    with pytest.raises(TypeError, match="fastest_seconds wants a function"):
        fastest_seconds(3.0)
