"""How fast does this machine multiply, and how fast does it read and write its memory?

Both are reached by an operation made for it: a large matrix product, and a sum of arrays that fit
in no cache. On a CPU one thread is measured, in seconds of its own work: a neighbour that takes the
core away is not counted. One that takes memory bandwidth still is, so the best of several runs
counts, the two kinds in turn, and the spread tells how far the rounds lie apart.

    >>> roof = measure_roofline()
    >>> roof.ridge == roof.flops_per_second / roof.bytes_per_second
    True

Source: Williams, Waterman, Patterson, "Roofline: an insightful visual performance model for
multicore architectures" (2009).
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from course_utils.configs.validation import require_positive
from course_utils.instruments.exclusive_use import exclusive
from course_utils.instruments.preconditions import (
    device_name,
    device_to_measure,
    require_call,
    require_real_tensors,
    torch_settings_restored,
)
from course_utils.instruments.timing import seconds_on_cpu, seconds_on_gpu

SIDE = 1024  # of the matrices
STREAM_BYTES = 128 * 2**20  # of each array: more than any cache
NUM_ROUNDS, NUM_RUNS = 4, 5


@dataclass(frozen=True, kw_only=True)
class Roofline:
    """What one thread of a CPU, or a GPU, reaches at best.

    Attributes:
        flops_per_second: In a large matrix product in fp32.
        bytes_per_second: In a sum of two large arrays, read and written together.
        spread: Seconds of the slowest round over those of the fastest, of products; above 1.3
            somebody else is at work on the machine.
        device: Its name.
    """

    flops_per_second: float
    bytes_per_second: float
    spread: float
    device: str

    @property
    def ridge(self) -> float:
        """FLOPs for each byte from which on arithmetic, and not memory, sets the pace."""
        return self.flops_per_second / self.bytes_per_second

    def __repr__(self) -> str:
        """The two rates, the ridge and the spread."""
        return (
            f"Roofline: {self.flops_per_second / 1e9:,.3g} GFLOP/s and "
            f"{self.bytes_per_second / 1e9:,.3g} GB/s on {self.device}, ridge at "
            f"{self.ridge:.3g} FLOP/B (spread {self.spread:.2f})"
        )


@exclusive
def measure_roofline(device: str | torch.device | None = None) -> Roofline:
    """The rates that this machine reaches, in about a second.

    Args:
        device: ``"cpu"`` or ``"cuda"``; by default the GPU if there is one.

    Raises:
        ValueError: If a GPU is named and there is none, if tensors are fake here, or if another
            instrument is running.
    """
    require_real_tensors("measure_roofline")
    chosen = device_to_measure(device)
    with torch_settings_restored():
        operations = product(chosen), stream(chosen)
        rounds = [
            [min(_seconds_of_runs(each, NUM_RUNS, chosen)) for each in operations]
            for _ in range(NUM_ROUNDS)
        ]
    products, streams = zip(*rounds, strict=True)
    return Roofline(
        flops_per_second=2 * SIDE**3 / min(products),
        bytes_per_second=3 * STREAM_BYTES / min(streams),
        spread=max(products) / min(products),
        device=device_name(chosen),
    )


@exclusive
def fastest_seconds(call: Callable[[], object], num_runs: int = NUM_RUNS) -> float:
    """Seconds of the fastest of some runs of a call, as `measure_roofline` takes them.

    On a CPU those of one thread's own work. What a run reads may still be in a cache from the run
    before: give every run data of its own where that matters.

    Args:
        call: Takes nothing; its result is dropped.
        num_runs: Runs, after one that is not timed.
    """
    require_call("fastest_seconds", call)
    require_real_tensors("fastest_seconds")
    require_positive("fastest_seconds", num_runs=num_runs)
    with torch_settings_restored():
        call()
        return min(_seconds_of_runs(call, num_runs, device_to_measure()))


def _seconds_of_runs(
    call: Callable[[], object], num_runs: int, device: torch.device
) -> list[float]:
    if device.type == "cuda":
        return seconds_on_gpu(call, num_runs)
    return seconds_on_cpu(call, num_runs, clock=time.thread_time)


def product(device: torch.device, side: int = SIDE) -> Callable[[], object]:
    """A call that multiplies two square matrices into a third."""
    a, b, out = (torch.ones(side, side, device=device) for _ in range(3))
    return lambda: torch.mm(a, b, out=out)


def stream(device: torch.device, num_bytes: int = STREAM_BYTES) -> Callable[[], object]:
    """A call that reads two arrays and writes a third."""
    x, y, out = (torch.ones(num_bytes // 4, device=device) for _ in range(3))
    return lambda: torch.add(x, y, alpha=3.0, out=out)
