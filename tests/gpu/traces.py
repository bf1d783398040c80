"""Everything that ran in a training step, from a profiler's trace: a table, an event in each line.

`course_utils.traces.read_trace` takes a row as it is.
"""

from collections.abc import Iterator
from dataclasses import asdict

from course_utils.instruments import profile
from course_utils.traces import outermost, read_trace, select
from course_utils.traces.table import table_lines
from tests.gpu.setting import Case, Row, Setting, build, reset_device

KEPT = ("kernel", "communication", "memcpy", "memset", "sync", "range")


def measure(setting: Setting) -> Iterator[Row]:
    """A step of Llama-3.2-1B with each AdamW: the GPU's work, waits, ranges, outer operators."""
    for adamw in ("fused", "for-loop"):
        case = Case(
            model_name="Llama-3.2-1B",
            seq_len=16 if setting.is_tiny else 4096,
            policy="none",
            adamw=adamw,
        )
        reset_device()
        training = build(case, setting.model(case.model_name), setting.device)
        events = read_trace(profile(training.step, num_warm_up=2).trace)
        kept = select(events, kind=KEPT) + outermost(select(events, kind="cpu_op"))
        kept.sort(key=lambda event: event["start_ns"])
        yield {"what": "step", **asdict(case), "table": table_lines(kept)}
