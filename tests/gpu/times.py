"""How fast are matrix products, copies and training steps on this device?"""

from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from itertools import product

from course_utils.formulas.recomputation import POLICIES
from course_utils.instruments import Timing, measure_peak, time_call
from course_utils.instruments.rates import KINDS, copy_bytes_per_second, product_flops_per_second
from tests.gpu.setting import Case, Row, Setting, build, reset_device, row_or_trouble

SIZES = (512, 1024, 2048, 4096, 8192, 16384)
FEW_ROWS = (1, 16, 128, 512, 2048)  # tokens in a product: from decoding to training
COPIES = (2**20, 2**24, 2**28, 2**32)


def measure(setting: Setting) -> Iterator[Row]:
    """Rates of products and copies, then seconds of training steps."""
    yield from measure_products(setting)
    for num_bytes in COPIES[:1] if setting.is_tiny else COPIES:
        rate = copy_bytes_per_second(num_bytes, device=setting.device)
        yield {"what": "copy", "num_bytes": num_bytes, "bytes_per_second": rate}
    yield from measure_steps(setting)


def measure_products(setting: Setting) -> Iterator[Row]:
    """Rates of square products in each number format, and of products with few rows in bf16."""
    shapes = [(kind, (size, size, size)) for kind, size in product(KINDS, SIZES)]
    shapes += [("bf16", (rows, 4096, 4096)) for rows in FEW_ROWS]
    if setting.is_tiny:
        shapes = [(kind, (8, 8, 8)) for kind in KINDS]
    for kind, shape in shapes:
        rate = product_flops_per_second(*shape, kind=kind, device=setting.device)
        yield {"what": "product", "kind": kind, "shape": shape, "flops_per_second": rate}


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
