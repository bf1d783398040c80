"""What the planner of unit 14 says of the same runs, as it is.

A stage count that does not divide the layers is no plan of its: it has no answer there.
"""

import math
from dataclasses import replace

from course_utils.configs import machine_of
from course_utils.formulas.plan import Task, model_sizes, plan_bytes
from course_utils.planner.truth.playbook import GIB, model_of, plan_of
from course_utils.records.sweeps import PlaybookRun

H100 = machine_of("H100-SXM", num_devices=8)


def step_seconds(run: PlaybookRun) -> float:
    """Seconds of a step on devices that all reach each other equally fast."""
    if run.num_layers % run.pipeline:
        return math.inf
    machine = replace(H100, num_devices=run.num_devices)
    return Task(model_of(run), run.seq_len, run.num_sequences, machine).seconds_of(plan_of(run))


def rank_gib(run: PlaybookRun) -> float:
    """GiB of the first rank: without the loss, where that lies on another stage."""
    model, plan = model_of(run), plan_of(run)
    sizes = model_sizes(model, run.seq_len)
    parts = plan_bytes(model, sizes, run.seq_len, run.num_sequences, plan)
    return (sum(parts.values()) - (run.pipeline > 1) * parts["loss"]) / GIB
