"""How fast does a device multiply, attend and copy, and do two kinds of work hide each other?

Conventions: a multiply and an add are two operations; a copy reads and writes each byte. A rate is
that of the fastest run: other work on the machine only makes a run longer.

    >>> rate = product_flops_per_second(4096, 4096, 4096, kind="bf16", device="cuda")
    >>> pair = measure_overlap(multiply, copy)
    >>> pair.hidden_fraction

Sources: PyTorch documentation, "CUDA semantics": asynchronous execution, CUDA streams, and
TensorFloat-32.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from course_utils.configs.validation import find_named, require_positive
from course_utils.instruments.exclusive_use import exclusive
from course_utils.instruments.fake import NO_GPU
from course_utils.instruments.preconditions import require_call, require_real_tensors
from course_utils.instruments.timing import seconds_on_gpu, time_call

NUM_RUNS = 10

# Number formats: the dtype, and PyTorch's setting for fp32 products.
KINDS = {
    "bf16": (torch.bfloat16, "highest"),
    "tf32": (torch.float32, "high"),
    "fp32": (torch.float32, "highest"),
}


def product_flops_per_second(
    rows: int, inner: int, columns: int, *, kind: str = "bf16", device: str
) -> float:
    """FLOP/s of one matrix product, ``2 m k n`` over the seconds of the fastest run.

    Of a small one, on a GPU, the launch is measured: it ends before the next is launched.

    Args:
        rows: m, of the result.
        inner: k, over which is summed.
        columns: n, of the result.
        kind: One of `KINDS`.
        device: ``"cuda"`` or ``"cpu"``.

    Raises:
        ValueError: If there is no such kind; the message lists similar names.
    """
    dtype, fp32_precision = find_named("kind of product", kind, KINDS)
    # Random numbers: on equal ones a GPU draws less power and runs faster.
    a = torch.randn(rows, inner, dtype=dtype, device=device)
    b = torch.randn(inner, columns, dtype=dtype, device=device)
    out = torch.empty(rows, columns, dtype=dtype, device=device)
    with _fp32_products(fp32_precision):
        timing = time_call(lambda: torch.mm(a, b, out=out), num_runs=NUM_RUNS, device=device)
    return 2 * rows * inner * columns / min(timing.seconds)


def copy_bytes_per_second(num_bytes: int, *, device: str) -> float:
    """Bytes/s of a copy; that of a cache unless it is four times as large as the caches."""
    source, target = (torch.zeros(num_bytes, dtype=torch.uint8, device=device) for _ in range(2))
    timing = time_call(lambda: target.copy_(source), num_runs=NUM_RUNS, device=device)
    return 2 * num_bytes / min(timing.seconds)


def attention_seconds(
    num_heads: int, seq_len: int, head_dim: int, *, is_causal: bool, device: str
) -> dict[str, float]:
    """Seconds of PyTorch's attention in bf16 on one sequence: ``"fwd"`` and ``"bwd"``.

    Each is that of the fastest run; ``"bwd"`` runs the backward pass alone.

    Args:
        num_heads: Of queries, and as many of keys and values.
        seq_len: Tokens of the sequence.
        head_dim: Width of a head.
        is_causal: Whether a token sees those before it only.
        device: ``"cuda"`` or ``"cpu"``.
    """
    shape = (1, num_heads, seq_len, head_dim)
    q, k, v = (
        torch.randn(shape, dtype=torch.bfloat16, device=device, requires_grad=True)
        for _ in range(3)
    )
    forward = partial(F.scaled_dot_product_attention, q, k, v, is_causal=is_causal)
    out = forward()
    backward = partial(torch.autograd.grad, out, (q, k, v), torch.ones_like(out), retain_graph=True)
    calls: dict[str, Callable[[], Any]] = {"fwd": forward, "bwd": backward}
    return {
        name: min(time_call(call, num_runs=NUM_RUNS, device=device).seconds)
        for name, call in calls.items()
    }


@dataclass(frozen=True, kw_only=True)
class Overlap:
    """Median seconds of two calls alone, and of both at once on two streams.

    Attributes:
        first_seconds: Of the first call alone.
        second_seconds: Of the second call alone.
        together_seconds: From the beginning of both to the end of the later one.
    """

    first_seconds: float
    second_seconds: float
    together_seconds: float

    @property
    def hidden_fraction(self) -> float:
        """Share of the shorter call that the longer one hides: 1 is all, 0 is none of it.

        Below zero, the two hinder each other so much that one after the other would be faster.
        """
        alone = self.first_seconds, self.second_seconds
        return (sum(alone) - self.together_seconds) / min(alone)


@exclusive
def measure_overlap(
    first: Callable[[], object], second: Callable[[], object], *, num_runs: int = NUM_RUNS
) -> Overlap:
    """Seconds of two calls alone and at once, by the events of the current GPU.

    Both should take at least a millisecond: each is launched by Python, one after the other. They
    should write to tensors that are there already, since a stream's blocks are its own.

    Args:
        first: Takes nothing, and computes, say.
        second: Takes nothing, and copies, say.
        num_runs: Runs of each kind, after one that is not timed.

    Raises:
        TypeError: If one cannot be called.
        ValueError: If there is no GPU, if ``num_runs`` is not above zero, if tensors are fake here,
            or if another instrument is running.
    """
    require_call("measure_overlap", first)
    require_call("measure_overlap", second)
    require_real_tensors("measure_overlap")
    require_positive("measure_overlap", num_runs=num_runs)
    if not torch.cuda.is_available():
        raise ValueError(NO_GPU)
    calls = (first, second, on_two_streams(first, second))
    seconds = []
    for call in calls:
        call()
        seconds.append(median(seconds_on_gpu(call, num_runs)))
    return Overlap(first_seconds=seconds[0], second_seconds=seconds[1], together_seconds=seconds[2])


def on_two_streams(first: Callable[[], object], second: Callable[[], object]) -> Callable[[], None]:
    """A call that runs both at once, each on a stream of its own, between two waits.

    What the current stream has queued runs before both, and what it gets afterwards, after both.
    """
    streams = torch.cuda.Stream(), torch.cuda.Stream()

    def both() -> None:
        current = torch.cuda.current_stream()
        for stream, call in zip(streams, (first, second), strict=True):
            stream.wait_stream(current)
            with torch.cuda.stream(stream):
                call()
        for stream in streams:
            current.wait_stream(stream)

    return both


def product_and_copy(
    side: int, num_bytes: int, *, device: str
) -> tuple[Callable[[], Tensor], Callable[[], Tensor]]:
    """A product of two square matrices in bf16, and a copy as a collective would make it.

    Args:
        side: Rows and columns of both matrices.
        num_bytes: Of the tensor that is copied within the device's memory.
        device: ``"cuda"`` or ``"cpu"``.
    """
    a, b, out = (torch.randn(side, side, device=device).bfloat16() for _ in range(3))
    source, target = (torch.zeros(num_bytes, dtype=torch.uint8, device=device) for _ in range(2))
    return partial(torch.mm, a, b, out=out), partial(target.copy_, source)


@contextmanager
def _fp32_products(precision: str) -> Iterator[None]:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
