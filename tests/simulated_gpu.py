"""A GPU where there is none: tensors on the CPU, events by its clock, an allocator that counts.

What a profiler gives is the recorded step of an H100.

So what calls an instrument for a GPU can be run line by line; its numbers mean nothing.
"""

import contextlib
import json
import tempfile
import time
from pathlib import Path

import torch
from torch.overrides import TorchFunctionMode
from torch.profiler import ProfilerActivity, profile

from course_utils.instruments import profiling
from course_utils.records.traces import recorded_trace
from course_utils.traces import write_perfetto
from tests.course_utils.instruments.test_allocator import SimulatedGPU as SimulatedAllocator

NAME, MEMORY_BYTES = "NVIDIA H200", 141 * 10**9


class Event:
    def __init__(self, enable_timing):
        assert enable_timing

    def record(self):
        self.at = time.perf_counter()

    def elapsed_time(self, later):
        return 1e3 * (later.at - self.at)


class Stream:
    def wait_stream(self, other):
        assert isinstance(other, Stream)


class TensorsOnTheCPU(TorchFunctionMode):
    """Takes ``device="cuda"`` for the CPU, and counts how often it was named."""

    def __init__(self):
        super().__init__()
        self.calls = 0

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if str(kwargs.get("device", "")).startswith("cuda"):
            self.calls += 1
            kwargs["device"] = "cpu"
        return func(*args, **kwargs)


class Memory:
    """The allocator's levels; a block is as large as its request, and none is kept in reserve."""

    def __init__(self, allocator):
        self.allocator = allocator

    def now(self):
        return sum(size for size, _ in self.allocator.live.values())

    def peak(self):
        level = highest = self.now()
        for event in reversed(self.allocator.events):
            level += event["size"] if event["action"] == "free_requested" else -event["size"]
            highest = max(highest, level)
        return highest

    def reset(self):
        self.allocator.events.clear()

    def stats(self):
        levels = {"current": self.now(), "peak": self.peak()}
        return {
            f"{kind}_bytes.all.{name}": level
            for kind in ("requested", "allocated", "reserved")
            for name, level in levels.items()
        }


def profile_of_the_cpu(activities):
    """A profiler without CUDA, of which a build of torch for CPUs complains with each operator."""
    assert ProfilerActivity.CUDA in activities
    return profile(activities=[ProfilerActivity.CPU])


def recorded_profile():
    """A step of an H100 in the form in which a profiler gives it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "step.json"
        write_perfetto(recorded_trace("h100x8_nanogpt_before"), path)
        return json.loads(path.read_text("utf-8"))


@contextlib.contextmanager
def simulated_gpu(monkeypatch):
    """All that the course calls of `torch.cuda`, simulated; gives the mode that counts."""
    ranges = []
    allocator = SimulatedAllocator(monkeypatch)
    memory = Memory(allocator)
    stands_for = {
        "Event": Event,
        "Stream": Stream,
        "stream": lambda _: contextlib.nullcontext(),
        "current_stream": Stream,
        "get_device_name": lambda _=None: NAME,
        "mem_get_info": lambda: (MEMORY_BYTES, MEMORY_BYTES),
        "empty_cache": lambda: None,
        "memory_allocated": memory.now,
        "memory_reserved": memory.now,
        "reset_peak_memory_stats": memory.reset,
        "memory_stats": memory.stats,
    }
    for name, replacement in stands_for.items():
        monkeypatch.setattr(torch.cuda, name, replacement)
    monkeypatch.setattr(torch.cuda.nvtx, "range_push", ranges.append)
    monkeypatch.setattr(torch.cuda.nvtx, "range_pop", ranges.pop)
    monkeypatch.setattr(profiling, "torch_profile", profile_of_the_cpu)
    monkeypatch.setattr(profiling, "trace_of", lambda _: recorded_profile())
    with allocator, TensorsOnTheCPU() as tensors:
        yield tensors
    assert ranges == []
