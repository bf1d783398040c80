"""Which MFU does the optimised training step achieve, in each convention?"""

from collections.abc import Iterator
from dataclasses import asdict
from functools import partial

import torch

from course_utils.configs import device
from course_utils.formulas.utilisation import (
    CONVENTIONS,
    model_flops_per_token,
    model_flops_utilisation,
)
from course_utils.instruments import time_call
from tests.gpu.fast_training import FastTraining
from tests.gpu.setting import Case, Row, Setting, build, reset_device, row_or_trouble
from tests.gpu.times import timing_row

# Part of the name that a GPU reports, and its data sheet.
DATA_SHEETS = {
    "H200": "H200",
    "B200": "B200",
    "H100 PCIe": "H100-PCIe",
    "H100 NVL": "H100-NVL",
    "H100 80GB HBM3": "H100-SXM",
    "A100": "A100-80",
}
BATCHES = (1, 4, 16)


def measure(setting: Setting) -> Iterator[Row]:
    """A row for the reference, then for the optimised step with growing batches."""
    for trainer, batch in [("reference", 1), *(("fast", batch) for batch in BATCHES)]:
        case = Case(
            model_name="Llama-3.2-1B",
            seq_len=16 if setting.is_tiny else 4096,
            policy="none",
            micro_batch_size=batch,
        )
        row = row_or_trouble(partial(measure_step, trainer, case, setting))
        yield {"trainer": trainer, **asdict(case), **row}


def measure_step(trainer: str, case: Case, setting: Setting) -> Row:
    """Seconds of a step, and its utilisation in each convention."""
    reset_device()
    model = setting.model(case.model_name)
    if trainer == "reference":
        training = build(case, model, setting.device)
    else:
        backend = "eager" if setting.is_tiny else "inductor"
        training = FastTraining(model, case.run(), setting.device, backend=backend)
    timing = time_call(
        training.step, num_warm_up=3, num_runs=2 if setting.is_tiny else 10, device=setting.device
    )
    row = timing_row(timing, case)
    return row | {"utilisation": utilisations(case, setting, row["tokens_per_second"])}


def utilisations(case: Case, setting: Setting, tokens_per_second: float) -> Row:
    """FLOPs per token by convention, and the MFU if the device's peak is known."""
    model, peak = setting.model(case.model_name), peak_flops_per_second()
    rows: Row = {"peak_flops_per_second": peak}
    for name in CONVENTIONS:
        flops = model_flops_per_token(model, case.seq_len, name)
        rows[name] = {"flops_per_token": flops, "mfu": None}
        if peak is not None:
            mfu = model_flops_utilisation(model, case.seq_len, tokens_per_second, peak, name)
            rows[name]["mfu"] = mfu
    return rows


def peak_flops_per_second() -> int | None:
    """Dense bf16 peak of the GPU, by its data sheet; None for a CPU or an unknown GPU."""
    name = torch.cuda.get_device_name() if torch.cuda.is_available() else ""
    for part, sheet in DATA_SHEETS.items():
        if part in name:
            return device(sheet).dense_flops_per_second("bf16")
    return None
