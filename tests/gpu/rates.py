"""Which rates does this device really reach? Two points of a roofline.

The peak of a data sheet is not reached; how near one comes depends on the sizes.

    >>> matmul_flops_per_second(1024, 1024, 1024, dtype=torch.bfloat16)  # doctest: +SKIP
    >>> copy_bytes_per_second(2**28)  # doctest: +SKIP

Conventions: a multiply and an add are two operations; a copy reads and writes each byte. The rate
is that of the fastest run: whatever else the machine does only makes a run longer.

Sources: Williams et al. 2009, Roofline.
"""

import torch

from course_utils.configs.validation import require_positive
from course_utils.instruments.preconditions import device_to_measure
from course_utils.instruments.timing import time_call

NUM_RUNS = 10


def matmul_flops_per_second(
    rows: int,
    inner: int,
    columns: int,
    *,
    dtype: torch.dtype = torch.float32,
    device: str | torch.device | None = None,
) -> float:
    """FLOP/s of one matrix product ``(m, d) @ (d, n)``: ``2 m d n`` by the seconds of a run.

    Needs a device on which nothing else runs. On a GPU a small product is over before the next is
    launched, and what is measured then is the launching.

    Args:
        rows: Rows m of the first matrix.
        inner: The size d that is summed over.
        columns: Columns n of the second matrix.
        dtype: Of all three matrices; on a GPU fp32 is computed as the settings for TF32 say.
        device: Where; the GPU if there is one.

    Raises:
        ValueError: If a size is not above zero, or as `time_call` says.
    """
    require_positive("matmul_flops_per_second", rows=rows, inner=inner, columns=columns)
    where = device_to_measure(device)
    # Random numbers: where all are alike, a GPU draws less power and runs faster.
    a = torch.randn(rows, inner, dtype=dtype, device=where)
    b = torch.randn(inner, columns, dtype=dtype, device=where)
    out = torch.empty(rows, columns, dtype=dtype, device=where)
    timing = time_call(lambda: torch.mm(a, b, out=out), num_runs=NUM_RUNS, device=where)
    return 2 * rows * inner * columns / min(timing.seconds)


def copy_bytes_per_second(num_bytes: int, *, device: str | torch.device | None = None) -> float:
    """Bytes/s of a copy within the memory of one device, read and written: ``2 n`` by seconds.

    Needs a device on which nothing else runs, and more bytes than its caches hold, four times as
    many or more; else the bandwidth is that of a cache.

    Args:
        num_bytes: Bytes n that are copied.
        device: Where; the GPU if there is one.

    Raises:
        ValueError: If there is no byte to copy, or as `time_call` says.
    """
    require_positive("copy_bytes_per_second", num_bytes=num_bytes)
    where = device_to_measure(device)
    source, target = (torch.zeros(num_bytes, dtype=torch.uint8, device=where) for _ in range(2))
    timing = time_call(lambda: target.copy_(source), num_runs=NUM_RUNS, device=where)
    return 2 * num_bytes / min(timing.seconds)
