"""Which MFU does the optimised training step achieve, in each convention?"""

from collections.abc import Iterator
from dataclasses import asdict
from functools import partial

from course_utils.formulas.utilisation import (
    CONVENTIONS,
    model_flops_per_token,
    model_flops_utilisation,
)
from course_utils.instruments import time_call
from course_utils.instruments.device_record import dense_peak_flops_per_second
from tests.gpu.fast_training import FastTraining
from tests.gpu.setting import Case, Row, Setting, build, reset_device, row_or_trouble
from tests.gpu.times import timing_row

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
    model, peak = setting.model(case.model_name), dense_peak_flops_per_second(setting.name)
    rows: Row = {"peak_flops_per_second": peak}
    for name in CONVENTIONS:
        flops = model_flops_per_token(model, case.seq_len, name)
        rows[name] = {"flops_per_token": flops, "mfu": None}
        if peak is not None:
            mfu = model_flops_utilisation(model, case.seq_len, tokens_per_second, peak, name)
            rows[name]["mfu"] = mfu
    return rows
