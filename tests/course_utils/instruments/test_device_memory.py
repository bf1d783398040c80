"""Peaks of a call on a simulated GPU; without a GPU, a sentence and no number."""

import gc
import weakref

import pytest
import torch

from course_utils.instruments import count_flops, fake_tensors, measure_peak

GIB = 2**30


class SimulatedGPU:
    """Counts the bytes that calls report, by kind: now and at the peak."""

    def __init__(self, monkeypatch):
        self.now = {"requested": 90, "allocated": 512, "reserved": 2**21}
        self.peak = dict(self.now)
        self.emptied = 0
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
        monkeypatch.setattr(torch.cuda, "empty_cache", self.empty)
        monkeypatch.setattr(torch.cuda, "memory_allocated", lambda: self.now["allocated"])
        monkeypatch.setattr(torch.cuda, "memory_reserved", lambda: self.now["reserved"])
        monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", self.reset)
        monkeypatch.setattr(torch.cuda, "memory_stats", self.stats)

    def empty(self):
        self.emptied += 1

    def reset(self):
        self.peak = dict(self.now)

    def stats(self):
        levels = {"current": self.now, "peak": self.peak}
        return {
            f"{kind}_bytes.all.{name}": num_bytes
            for name, level in levels.items()
            for kind, num_bytes in level.items()
        }

    def take(self, **sizes):
        for kind, num_bytes in sizes.items():
            self.now[kind] += num_bytes
            self.peak[kind] = max(self.peak[kind], self.now[kind])

    def call(self):
        """Takes memory and frees it, but keeps it reserved."""
        self.take(requested=100, allocated=512, reserved=2**21)
        self.take(requested=-100, allocated=-512)


@pytest.fixture
def gpu(monkeypatch):
    return SimulatedGPU(monkeypatch)


def test_peaks_are_above_the_starting_level(gpu):
    gpu.take(requested=10**9, allocated=10**9)
    gpu.take(requested=-(10**9), allocated=-(10**9))  # an older peak, which is reset
    peak = measure_peak(gpu.call)
    assert (peak.start_allocated_bytes, peak.start_reserved_bytes) == (512, 2**21)
    assert (peak.requested_bytes, peak.allocated_bytes, peak.reserved_bytes) == (100, 512, 2**21)
    assert peak.fits
    assert gpu.emptied == 2
    assert repr(peak) == (
        "PeakMemory: 512 bytes allocated, 2,097,152 reserved, above what was there"
    )


def out_of_memory(amount):
    return torch.OutOfMemoryError(
        f"CUDA out of memory. Tried to allocate {amount}. GPU 0 has a total capacity of 139.80 "
        f"GiB of which 1.25 GiB is free."
    )


def test_a_loop_goes_on_after_running_out_of_memory(gpu):
    held = []

    def call(fits):
        tensor = torch.ones(3)
        held.append(weakref.ref(tensor))
        gpu.take(requested=100, allocated=512)
        if not fits:
            raise out_of_memory("2.50 GiB")
        gpu.take(requested=-100, allocated=-512)

    results = [measure_peak(lambda fits=fits: call(fits)) for fits in (True, False, True)]
    assert [each.fits for each in results] == [True, False, True]
    assert results[1].wanted_bytes == 2.5 * GIB
    assert "out of memory, 2,684,354,560 bytes more were wanted; 512 bytes" in repr(results[1])
    gc.collect()
    assert not any(each() is not None for each in held)


@pytest.mark.parametrize(
    ("amount", "expected"),
    [("512.00 MiB", 2**29), ("20 bytes", 20), ("1.50 KiB", 1536), ("so much", 0)],
)
def test_the_failed_request_is_read_from_the_message(gpu, amount, expected):
    def call():
        raise out_of_memory(amount)

    assert measure_peak(call).wanted_bytes == expected


def test_other_errors_are_raised(gpu):
    with pytest.raises(KeyError):
        measure_peak(lambda: {}["a student's error"])


def test_without_a_gpu_there_is_a_sentence_and_no_number(monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    calls = []
    assert measure_peak(lambda: calls.append(1)) is None
    assert not calls
    printed = capsys.readouterr().out
    assert printed.startswith("There is no GPU here, so no memory of one is measured")
    assert printed.count("\n") == 1


def test_wrong_arguments_are_rejected():
    with pytest.raises(TypeError, match="measure_peak wants a function that takes nothing"):
        measure_peak(torch.ones(1))
    with fake_tensors(), pytest.raises(ValueError, match="measure_peak measures real work"):
        measure_peak(lambda: None)
    with pytest.raises(ValueError, match="measure_peak cannot run inside count_flops"):
        count_flops(lambda: measure_peak(lambda: None))
