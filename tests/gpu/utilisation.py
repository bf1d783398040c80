"""Which MFU does a step made fast reach, and in whose convention?"""

from collections.abc import Iterator
from dataclasses import asdict

import torch

from course_utils.configs import device
from course_utils.formulas.utilisation import (
    CONVENTIONS,
    model_flops_per_token,
    model_flops_utilisation,
)
from course_utils.instruments import time_call
from tests.gpu.fast import FastTraining
from tests.gpu.setting import Case, Row, Setting, build, forget_the_last, surviving
from tests.gpu.times import timed

# A part of what a GPU calls itself, and its data sheet.
DATA_SHEETS = {
    "H200": "H200",
    "B200": "B200",
    "H100 PCIe": "H100-PCIe",
    "H100 NVL": "H100-NVL",
    "H100 80GB HBM3": "H100-SXM",
    "A100": "A100-80",
}
BATCHES = (1, 4, 16)


def measure(where: Setting) -> Iterator[Row]:
    """The reference as it is, then the step made fast with more and more sequences."""
    for trainer, batch in [("reference", 1), *(("fast", batch) for batch in BATCHES)]:
        case = Case(
            model_name="Llama-3.2-1B",
            seq_len=16 if where.is_tiny else 4096,
            policy="none",
            micro_batch_size=batch,
        )
        row = surviving(lambda t=trainer, c=case: step(t, c, where))
        yield {"trainer": trainer, **asdict(case), **row}


def step(trainer: str, case: Case, where: Setting) -> Row:
    """Seconds of a step, and its utilisation in each convention."""
    forget_the_last()
    model = where.model(case.model_name)
    if trainer == "reference":
        training = build(case, model, where.device)
    else:
        backend = "eager" if where.is_tiny else "inductor"
        training = FastTraining(model, case.run(), where.device, backend=backend)
    timing = time_call(
        training.step, num_warm_up=3, num_runs=2 if where.is_tiny else 10, device=where.device
    )
    row = timed(timing, case)
    return row | {"utilisation": utilisations(case, where, row["tokens_per_second"])}


def utilisations(case: Case, where: Setting, tokens_per_second: float) -> Row:
    """FLOPs of a token by convention, and where the device's peak is known the MFU."""
    model, peak = where.model(case.model_name), peak_flops_per_second()
    rows: Row = {"peak_flops_per_second": peak}
    for name in CONVENTIONS:
        flops = model_flops_per_token(model, case.seq_len, name)
        rows[name] = {"flops_per_token": flops, "mfu": None}
        if peak is not None:
            mfu = model_flops_utilisation(model, case.seq_len, tokens_per_second, peak, name)
            rows[name]["mfu"] = mfu
    return rows


def peak_flops_per_second() -> int | None:
    """Of the GPU, dense in bf16, by its data sheet; None for a CPU or an unknown one."""
    name = torch.cuda.get_device_name() if torch.cuda.is_available() else ""
    for part, sheet in DATA_SHEETS.items():
        if part in name:
            return device(sheet).dense_flops_per_second("bf16")
    return None
