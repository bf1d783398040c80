"""How much GPU memory does a call need at its peak?

Three different numbers: bytes requested, bytes of the blocks that the allocator gave for them
(allocated), and bytes that it took from the device (reserved).

    >>> peak = measure_peak(training.step)
    >>> peak.reserved_bytes >= peak.allocated_bytes >= peak.requested_bytes
    True

A call that does not fit returns a result that says so, so a loop over configurations goes on.

Sources: PyTorch documentation, `torch.cuda.memory_stats`, "CUDA semantics, memory management".
"""

import gc
import re
from collections.abc import Callable
from dataclasses import dataclass

import torch

from course_utils.instruments.exclusive_use import exclusive
from course_utils.instruments.preconditions import require_call, require_real_tensors

NO_DEVICE_MEMORY = (
    "There is no GPU here, so no memory of one is measured; trace_memory counts the bytes of the "
    "same call on the CPU."
)
UNIT_BYTES = {"bytes": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}


@dataclass(frozen=True, kw_only=True)
class PeakMemory:
    """Peaks of one call on a GPU, each above the level at which the call began.

    Attributes:
        start_allocated_bytes: Allocated when the call began.
        start_reserved_bytes: Reserved when the call began, with an empty cache.
        requested_bytes: Requested by tensors and kernels that are live at the same time.
        allocated_bytes: Of the blocks that serve these requests, rounded up.
        reserved_bytes: Taken from the device.
        wanted_bytes: Size of the request that failed, to about three digits; None if none did.
    """

    start_allocated_bytes: int
    start_reserved_bytes: int
    requested_bytes: int
    allocated_bytes: int
    reserved_bytes: int
    wanted_bytes: int | None = None

    def __repr__(self) -> str:
        """Peak allocated and reserved bytes, and whether the call fitted."""
        peaks = f"{self.allocated_bytes:,} bytes allocated, {self.reserved_bytes:,} reserved"
        if self.wanted_bytes is None:
            return f"PeakMemory: {peaks}, above what was there"
        return f"PeakMemory: out of memory, {self.wanted_bytes:,} bytes more were wanted; {peaks}"

    @property
    def fits(self) -> bool:
        """Whether the call succeeded; if not, the peaks are those until it failed."""
        return self.wanted_bytes is None


@exclusive
def measure_peak(call: Callable[[], object]) -> PeakMemory | None:
    """Peak bytes of one call on the current GPU, above the level at which it began.

    First empties the cache and resets the peaks. Kernels, cuBLAS among them, allocate a workspace
    at their first use: call once before to leave it out. Not seen: what the driver keeps, other
    processes, and memory allocated outside PyTorch's allocator.

    Args:
        call: Takes nothing; its result is freed when it returns.

    Returns:
        The peaks. If memory runs out, a result that does not fit; what only the call held is freed.
        Without a GPU, None: it prints a sentence and does not run the call.

    Raises:
        TypeError: If ``call`` cannot be called.
        ValueError: If tensors are fake here, or if another instrument is running.
    """
    require_call("measure_peak", call)
    require_real_tensors("measure_peak")
    if not torch.cuda.is_available():
        print(NO_DEVICE_MEMORY)
        return None
    _empty_cache()
    start_allocated, start_reserved = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
    start_requested = torch.cuda.memory_stats()["requested_bytes.all.current"]
    torch.cuda.reset_peak_memory_stats()
    failed_request = _failed_request_bytes(call)
    peaks = torch.cuda.memory_stats()
    _empty_cache()
    return PeakMemory(
        start_allocated_bytes=start_allocated,
        start_reserved_bytes=start_reserved,
        requested_bytes=peaks["requested_bytes.all.peak"] - start_requested,
        allocated_bytes=peaks["allocated_bytes.all.peak"] - start_allocated,
        reserved_bytes=peaks["reserved_bytes.all.peak"] - start_reserved,
        wanted_bytes=failed_request,
    )


def _empty_cache() -> None:
    """Wait for all work, and return to the device what nothing holds."""
    torch.cuda.synchronize()
    gc.collect()
    torch.cuda.empty_cache()


def _failed_request_bytes(call: Callable[[], object]) -> int | None:
    """Bytes of the request that failed; dropping the error frees the tensors in its frames."""
    try:
        call()
        torch.cuda.synchronize()
    except torch.OutOfMemoryError as error:
        return _requested_bytes(str(error))
    return None


def _requested_bytes(message: str) -> int:
    """``Tried to allocate 2.50 GiB`` in bytes; zero if the message does not say it."""
    found = re.search(r"Tried to allocate ([\d.]+) (\w+)", message)
    return round(float(found[1]) * UNIT_BYTES[found[2]]) if found else 0
