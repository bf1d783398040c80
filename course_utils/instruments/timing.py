"""How long does a call take on this device?

A GPU works asynchronously: a call returns as soon as its work is in the queue. So the GPU's own
clock is read, by an event before and one after each run, and Python waits once, after the last.

    >>> x = torch.ones(1000, 1000)
    >>> timing = time_call(lambda: x @ x)
    >>> timing.quantile(0.1) <= timing.median_seconds
    True

Times differ from run to run and from machine to machine: compare them on one device only, and
never by a single run.

Sources: PyTorch documentation, CUDA semantics, "Asynchronous execution".
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

import torch

from course_utils.configs.validation import require_not_negative, require_positive
from course_utils.instruments.exclusive_use import exclusive
from course_utils.instruments.preconditions import (
    device_name,
    device_to_measure,
    require_call,
    require_real_tensors,
)
from course_utils.quantities import SECONDS, unit_of


@dataclass(frozen=True, kw_only=True)
class Timing:
    """Seconds of several runs of one call.

    Attributes:
        seconds: Of each run, in the order in which they ran.
        device: Name of the device on which they ran.
    """

    seconds: tuple[float, ...]
    device: str

    def __repr__(self) -> str:
        """The median, and the range that holds eight of ten runs."""
        low, middle, high = (_in_best_unit(self.quantile(each)) for each in (0.1, 0.5, 0.9))
        return (
            f"Timing: {middle} (10-90 %: {low} to {high}) in {len(self.seconds)} runs "
            f"on {self.device}"
        )

    @property
    def median_seconds(self) -> float:
        """The time that half of the runs did not exceed."""
        return median(self.seconds)

    def quantile(self, fraction: float) -> float:
        """Seconds that this fraction of the runs did not exceed, interpolated between two runs.

        Raises:
            ValueError: If the fraction is not between zero and one.
        """
        if not 0 <= fraction <= 1:
            raise ValueError(f"Timing: a fraction lies between 0 and 1, got {fraction!r}")
        return float(torch.tensor(self.seconds, dtype=torch.float64).quantile(fraction))


def _in_best_unit(seconds: float) -> str:
    size, unit = unit_of(seconds, SECONDS)
    return f"{seconds / size:.3g} {unit}"


@exclusive
def time_call(
    call: Callable[[], object],
    *,
    num_warm_up: int = 3,
    num_runs: int = 20,
    device: str | torch.device | None = None,
) -> Timing:
    """Seconds of each of ``num_runs`` calls.

    Needs a device on which nothing else runs. On a GPU the runs are queued back to back, and only
    work on the current stream is timed: neither Python's own time nor work on other streams. What a
    run reads may still be in a cache from the run before.

    Args:
        call: Takes nothing; its result is dropped.
        num_warm_up: Calls before the first timed one: the first calls choose kernels and fill
            caches and the allocator.
        num_runs: Calls that are timed.
        device: Where the call runs; by default the GPU if there is one.

    Returns:
        The seconds of each run.

    Raises:
        TypeError: If ``call`` cannot be called.
        ValueError: If ``num_runs`` is not above zero, if a GPU is named and there is none, if
            tensors are fake here, or if another instrument is running.
    """
    require_call("time_call", call)
    require_real_tensors("time_call")
    require_positive("time_call", num_runs=num_runs)
    require_not_negative("time_call", num_warm_up=num_warm_up)
    chosen = device_to_measure(device)
    for _ in range(num_warm_up):
        call()
    seconds_of_runs = seconds_on_gpu if chosen.type == "cuda" else seconds_on_cpu
    return Timing(seconds=tuple(seconds_of_runs(call, num_runs)), device=device_name(chosen))


def seconds_on_cpu(
    call: Callable[[], object], num_runs: int, clock: Callable[[], float] = time.perf_counter
) -> list[float]:
    """Seconds of each run by a clock of the CPU."""
    seconds = []
    for _ in range(num_runs):
        start = clock()
        call()
        seconds.append(clock() - start)
    return seconds


def seconds_on_gpu(call: Callable[[], object], num_runs: int) -> list[float]:
    """Seconds of each run by the current GPU's own clock."""
    pairs = []
    for _ in range(num_runs):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        call()
        stop.record()
        pairs.append((start, stop))
    torch.cuda.synchronize()
    return [start.elapsed_time(stop) / 1000 for start, stop in pairs]
