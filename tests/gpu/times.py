"""How fast are products, copies and training steps on this device? Points of its roofline."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from itertools import product

import torch

from course_utils.formulas.recomputation import POLICIES
from course_utils.instruments import (
    Timing,
    copy_bytes_per_second,
    matmul_flops_per_second,
    measure_peak,
    time_call,
)
from tests.gpu.setting import Case, Row, Setting, build, forget_the_last, surviving

# Kinds of number, with how PyTorch may compute a product in fp32.
KINDS = {
    "bf16": (torch.bfloat16, "highest"),
    "tf32": (torch.float32, "high"),
    "fp32": (torch.float32, "highest"),
}
SIZES = (512, 1024, 2048, 4096, 8192, 16384)
TALL = (1, 16, 128, 512, 2048)  # rows of a product with few tokens: from decoding to training
COPIES = (2**20, 2**24, 2**28, 2**32)


def measure(where: Setting) -> Iterator[Row]:
    """Rates of products and copies, then seconds of steps."""
    yield from products(where)
    for num_bytes in COPIES[:1] if where.is_tiny else COPIES:
        rate = copy_bytes_per_second(num_bytes, device=where.device)
        yield {"what": "copy", "num_bytes": num_bytes, "bytes_per_second": rate}
    yield from steps(where)


def products(where: Setting) -> Iterator[Row]:
    """Square products of each kind of number, and in bf16 those of few tokens."""
    shapes = [(kind, (size, size, size)) for kind, size in product(KINDS, SIZES)]
    shapes += [("bf16", (rows, 4096, 4096)) for rows in TALL]
    for kind, shape in [(kind, (8, 8, 8)) for kind in KINDS] if where.is_tiny else shapes:
        dtype, allowed = KINDS[kind]
        with _fp32_products(allowed):
            rate = matmul_flops_per_second(*shape, dtype=dtype, device=where.device)
        yield {"what": "product", "kind": kind, "shape": shape, "flops_per_second": rate}


@contextmanager
def _fp32_products(allowed: str) -> Iterator[None]:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(allowed)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def steps(where: Setting) -> Iterator[Row]:
    """Llama-3.2-1B at 4,096 tokens: attention fused and not, with each kind of recomputation."""
    for is_fused, policy in product((True, False), POLICIES):
        case = Case(
            model_name="Llama-3.2-1B",
            seq_len=16 if where.is_tiny else 4096,
            policy=policy,
            is_attention_fused=is_fused,
        )
        yield {"what": "step", **asdict(case)} | surviving(lambda c=case: step(c, where))


def step(case: Case, where: Setting) -> Row:
    """Seconds and peak of one training step."""
    forget_the_last()
    training = build(case, where.model(case.model_name), where.device)
    timing = time_call(
        training.step, num_warm_up=2, num_runs=2 if where.is_tiny else 10, device=where.device
    )
    peak = measure_peak(training.step) if where.device == "cuda" else None
    return timed(timing, case) | {"peak": asdict(peak) if peak else None}


def timed(timing: Timing, case: Case) -> Row:
    """Seconds of all runs, and tokens per second by their median."""
    num_tokens = case.micro_batch_size * case.seq_len
    return {
        "seconds": timing.seconds,
        "median_seconds": timing.median_seconds,
        "tokens_per_second": num_tokens / timing.median_seconds,
    }
