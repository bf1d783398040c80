"""How long does a call take on this device?

A GPU works behind Python's back: a call returns when its work is in the queue. So its own clock is
read, by an event before and one after each run, and Python waits once, after the last of them.

    >>> x = torch.ones(1000, 1000)
    >>> timing = time_call(lambda: x @ x)
    >>> timing.quantile(0.1) <= timing.median_seconds
    True

Times differ from run to run, and from machine to machine: compare them on one device, and never
by one run.

Sources: PyTorch documentation, CUDA semantics, "Asynchronous execution".
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

import torch

from course_utils.configs.validation import require_not_negative, require_positive
from course_utils.instruments.exclusive import exclusive
from course_utils.instruments.preconditions import (
    device_to_measure,
    in_words,
    require_call,
    require_real_tensors,
)

UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))


@dataclass(frozen=True, kw_only=True)
class Timing:
    """Seconds of several runs of one call.

    Attributes:
        seconds: Of each run, in the order in which they ran.
        device: On which they ran, in words.
    """

    seconds: tuple[float, ...]
    device: str

    def __repr__(self) -> str:
        """The median, and between which times eight of ten runs lie."""
        low, middle, high = (_as_read(self.quantile(each)) for each in (0.1, 0.5, 0.9))
        return (
            f"Timing: {middle} (10-90 %: {low} to {high}) in {len(self.seconds)} runs "
            f"on {self.device}"
        )

    @property
    def median_seconds(self) -> float:
        """Half of the runs took no longer."""
        return median(self.seconds)

    def quantile(self, fraction: float) -> float:
        """Seconds that this fraction of the runs did not exceed, between two runs on the line.

        Raises:
            ValueError: If the fraction is not between zero and one.
        """
        if not 0 <= fraction <= 1:
            raise ValueError(f"Timing: a fraction lies between 0 and 1, got {fraction!r}")
        ordered = sorted(self.seconds)
        place = fraction * (len(ordered) - 1)
        below = int(place)
        above = min(below + 1, len(ordered) - 1)
        return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def _as_read(seconds: float) -> str:
    size, unit = next((pair for pair in UNITS if seconds >= pair[0]), UNITS[-1])
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

    Needs a device on which nothing else runs. On a GPU the runs stand in the queue one behind the
    other, and what is timed lies on the current stream: not what Python waits for, nor work on
    other streams. What a run reads may still be in a cache from the run before.

    Args:
        call: Takes nothing; what it returns is let go.
        num_warm_up: Calls before the first that is timed: the first ones choose kernels and fill
            caches and the allocator.
        num_runs: Calls that are timed.
        device: Where the call works; the GPU if there is one.

    Returns:
        The seconds of each run.

    Raises:
        TypeError: If the call cannot be called.
        ValueError: If no run is asked for, if there is no GPU where one is named, if tensors are
            fake here, or if another instrument runs.
    """
    require_call("time_call", call)
    require_real_tensors("time_call")
    require_positive("time_call", num_runs=num_runs)
    require_not_negative("time_call", num_warm_up=num_warm_up)
    where = device_to_measure(device)
    for _ in range(num_warm_up):
        call()
    timed = _seconds_on_gpu if where.type == "cuda" else _seconds_on_cpu
    return Timing(seconds=tuple(timed(call, num_runs)), device=in_words(where))


def _seconds_on_cpu(call: Callable[[], object], num_runs: int) -> list[float]:
    seconds = []
    for _ in range(num_runs):
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return seconds


def _seconds_on_gpu(call: Callable[[], object], num_runs: int) -> list[float]:
    pairs = []
    for _ in range(num_runs):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        call()
        stop.record()
        pairs.append((start, stop))
    torch.cuda.synchronize()
    return [start.elapsed_time(stop) / 1000 for start, stop in pairs]
