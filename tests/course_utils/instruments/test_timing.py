"""Timings count their runs; seconds are only ever ordered."""

import time

import pytest
import torch

from course_utils.instruments import Timing, count_flops, fake_tensors, time_call
from course_utils.instruments.timing import seconds_on_gpu


def test_quantiles_are_interpolated():
    timing = Timing(seconds=(0.3, 0.1, 0.2, 0.5, 0.4), device="CPU")
    # sorted: 0.1 to 0.5 at positions 0 to 4
    for fraction, expected in ((0, 0.1), (0.25, 0.2), (0.375, 0.25), (1, 0.5)):
        assert timing.quantile(fraction) == pytest.approx(expected)
    assert timing.median_seconds == 0.3
    assert timing.seconds[0] == 0.3  # in the order in which they ran


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        ((2.0,), "Timing: 2 s (10-90 %: 2 s to 2 s) in 1 runs on CPU"),
        ((0.001, 0.002, 0.003), "Timing: 2 ms (10-90 %: 1.2 ms to 2.8 ms) in 3 runs on CPU"),
        ((2e-7,), "Timing: 0.2 µs (10-90 %: 0.2 µs to 0.2 µs) in 1 runs on CPU"),
    ],
)
def test_a_timing_shows_its_median_and_range(seconds, expected):
    assert repr(Timing(seconds=seconds, device="CPU")) == expected


def test_each_run_is_timed_and_warm_up_is_not():
    calls = []
    timing = time_call(lambda: calls.append(1), num_warm_up=2, num_runs=5, device="cpu")
    assert (len(calls), len(timing.seconds), timing.device) == (7, 5, "CPU")
    assert min(timing.seconds) >= 0


def test_what_takes_longer_has_the_longer_time():
    short, long = (
        time_call(lambda s=s: time.sleep(s), num_warm_up=0, num_runs=3, device="cpu")
        for s in (0.001, 0.03)
    )
    assert short.median_seconds < long.median_seconds


def test_on_a_gpu_each_run_has_its_events_and_python_waits_once(monkeypatch):
    """On a simulated clock that takes one millisecond for each entry of the queue."""
    queue = []

    class Event:
        def __init__(self, enable_timing):
            assert enable_timing

        def record(self):
            queue.append("event")
            self.at = len(queue)

        def elapsed_time(self, other):
            assert queue[-1] == "waited"
            return float(other.at - self.at)

    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: queue.append("waited"))
    seconds = seconds_on_gpu(lambda: queue.append("work"), 3)
    assert queue == 3 * ["event", "work", "event"] + ["waited"]
    assert seconds == 3 * [0.002]


def test_wrong_arguments_are_rejected():
    with pytest.raises(TypeError, match="wants a function that takes nothing, got Tensor: write"):
        time_call(torch.ones(1))
    with pytest.raises(ValueError, match="num_runs must be above zero, got 0"):
        time_call(lambda: None, num_runs=0)
    with pytest.raises(ValueError, match="num_warm_up must be zero or above, got -1"):
        time_call(lambda: None, num_warm_up=-1)
    with pytest.raises(ValueError, match="a device to measure is 'cpu' or 'cuda', got 'meta'"):
        time_call(lambda: None, device="meta")
    with pytest.raises(ValueError, match="a fraction lies between 0 and 1, got 50"):
        Timing(seconds=(1.0,), device="CPU").quantile(50)


def test_a_missing_gpu_is_reported(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ValueError, match="there is no GPU here: leave the device out"):
        time_call(lambda: None, device="cuda")


def test_only_the_current_gpu_is_measured(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    with pytest.raises(ValueError, match="make 'cuda:1' the current GPU first"):
        time_call(lambda: None, device="cuda:1")


def test_fake_tensors_and_other_instruments_are_refused():
    with fake_tensors(), pytest.raises(ValueError, match="fake tensors do none: call it outside"):
        time_call(lambda: None)
    with pytest.raises(ValueError, match="time_call cannot run inside count_flops"):
        count_flops(lambda: time_call(lambda: None))
