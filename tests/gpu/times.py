"""How fast are matrix products, copies and training steps on this device?

Conventions: a multiply and an add are two operations; a copy reads and writes each byte. A rate is
that of the fastest run: other work on the machine only makes a run longer.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from itertools import product

import torch

from course_utils.formulas.recomputation import POLICIES
from course_utils.instruments import Timing, measure_peak, time_call
from tests.gpu.setting import Case, Row, Setting, build, reset_device, row_or_trouble

# Number formats: the dtype, and PyTorch's setting for fp32 products.
KINDS = {
    "bf16": (torch.bfloat16, "highest"),
    "tf32": (torch.float32, "high"),
    "fp32": (torch.float32, "highest"),
}
SIZES = (512, 1024, 2048, 4096, 8192, 16384)
FEW_ROWS = (1, 16, 128, 512, 2048)  # tokens in a product: from decoding to training
NUM_RUNS = 10
COPIES = (2**20, 2**24, 2**28, 2**32)


def measure(setting: Setting) -> Iterator[Row]:
    """Rates of products and copies, then seconds of training steps."""
    yield from measure_products(setting)
    for num_bytes in COPIES[:1] if setting.is_tiny else COPIES:
        rate = copy_bytes_per_second(num_bytes, device=setting.device)
        yield {"what": "copy", "num_bytes": num_bytes, "bytes_per_second": rate}
    yield from measure_steps(setting)


def copy_bytes_per_second(num_bytes: int, *, device: str) -> float:
    """Bytes/s of a copy; that of a cache unless it is four times as large as the caches."""
    source, target = (torch.zeros(num_bytes, dtype=torch.uint8, device=device) for _ in range(2))
    timing = time_call(lambda: target.copy_(source), num_runs=NUM_RUNS, device=device)
    return 2 * num_bytes / min(timing.seconds)


def matmul_flops_per_second(
    rows: int, inner: int, columns: int, *, dtype: torch.dtype, device: str
) -> float:
    """FLOP/s of one matrix product; on a GPU a small one ends before the next is launched."""
    # Random numbers: on equal ones a GPU draws less power and runs faster.
    a = torch.randn(rows, inner, dtype=dtype, device=device)
    b = torch.randn(inner, columns, dtype=dtype, device=device)
    out = torch.empty(rows, columns, dtype=dtype, device=device)
    timing = time_call(lambda: torch.mm(a, b, out=out), num_runs=NUM_RUNS, device=device)
    return 2 * rows * inner * columns / min(timing.seconds)


def measure_products(setting: Setting) -> Iterator[Row]:
    """Rates of square products in each number format, and of products with few rows in bf16."""
    shapes = [(kind, (size, size, size)) for kind, size in product(KINDS, SIZES)]
    shapes += [("bf16", (rows, 4096, 4096)) for rows in FEW_ROWS]
    if setting.is_tiny:
        shapes = [(kind, (8, 8, 8)) for kind in KINDS]
    for kind, shape in shapes:
        dtype, fp32_precision = KINDS[kind]
        with _fp32_products(fp32_precision):
            rate = matmul_flops_per_second(*shape, dtype=dtype, device=setting.device)
        yield {"what": "product", "kind": kind, "shape": shape, "flops_per_second": rate}


@contextmanager
def _fp32_products(precision: str) -> Iterator[None]:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def measure_steps(setting: Setting) -> Iterator[Row]:
    """Llama-3.2-1B at 4,096 tokens: attention fused or not, with each recomputation policy."""
    for is_fused, policy in product((True, False), POLICIES):
        case = Case(
            model_name="Llama-3.2-1B",
            seq_len=16 if setting.is_tiny else 4096,
            policy=policy,
            is_attention_fused=is_fused,
        )
        yield {"what": "step", **asdict(case)} | row_or_trouble(
            partial(measure_step, case, setting)
        )


def measure_step(case: Case, setting: Setting) -> Row:
    """Seconds and peak of one training step."""
    reset_device()
    training = build(case, setting.model(case.model_name), setting.device)
    timing = time_call(
        training.step, num_warm_up=2, num_runs=2 if setting.is_tiny else 10, device=setting.device
    )
    peak = measure_peak(training.step) if setting.device == "cuda" else None
    return timing_row(timing, case) | {"peak": asdict(peak) if peak else None}


def timing_row(timing: Timing, case: Case) -> Row:
    """Seconds of all runs, and tokens per second from their median."""
    num_tokens = case.micro_batch_size * case.seq_len
    return {
        "seconds": timing.seconds,
        "median_seconds": timing.median_seconds,
        "tokens_per_second": num_tokens / timing.median_seconds,
    }
