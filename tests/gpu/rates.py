"""Which rates does this device achieve? Two points of its roofline.

No product achieves the peak of a data sheet; how close it gets depends on the sizes.

    >>> matmul_flops_per_second(1024, 1024, 1024, dtype=torch.bfloat16)
    >>> copy_bytes_per_second(2**28)

Conventions: a multiply and an add are two operations; a copy reads and writes each byte. The rate
is that of the fastest run: other work on the machine only makes a run longer.

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
    """FLOP/s of one matrix product ``(m, d) @ (d, n)``: ``2 m d n`` over the seconds of a run.

    Needs a device on which nothing else runs. On a GPU a small product ends before the next is
    launched, so the launch overhead is measured instead.

    Args:
        rows: Rows m of the first matrix.
        inner: The size d that is summed over.
        columns: Columns n of the second matrix.
        dtype: Of all three matrices; on a GPU, PyTorch's settings choose between fp32 and TF32.
        device: By default the GPU if there is one.

    Raises:
        ValueError: If a size is not above zero, or from `time_call`.
    """
    require_positive("matmul_flops_per_second", rows=rows, inner=inner, columns=columns)
    chosen = device_to_measure(device)
    # Random numbers: on equal ones a GPU draws less power and runs faster.
    a = torch.randn(rows, inner, dtype=dtype, device=chosen)
    b = torch.randn(inner, columns, dtype=dtype, device=chosen)
    out = torch.empty(rows, columns, dtype=dtype, device=chosen)
    timing = time_call(lambda: torch.mm(a, b, out=out), num_runs=NUM_RUNS, device=chosen)
    return 2 * rows * inner * columns / min(timing.seconds)


def copy_bytes_per_second(num_bytes: int, *, device: str | torch.device | None = None) -> float:
    """Bytes/s of a copy within one device's memory, reads plus writes: ``2 n`` over the seconds.

    Needs a device on which nothing else runs, and at least four times as many bytes as its caches
    hold; otherwise the bandwidth is that of a cache.

    Args:
        num_bytes: Bytes n that are copied.
        device: By default the GPU if there is one.

    Raises:
        ValueError: If ``num_bytes`` is not above zero, or from `time_call`.
    """
    require_positive("copy_bytes_per_second", num_bytes=num_bytes)
    chosen = device_to_measure(device)
    source, target = (torch.zeros(num_bytes, dtype=torch.uint8, device=chosen) for _ in range(2))
    timing = time_call(lambda: target.copy_(source), num_runs=NUM_RUNS, device=chosen)
    return 2 * num_bytes / min(timing.seconds)
