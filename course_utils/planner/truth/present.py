"""What the planner of unit 14 says of the same runs, as it is.

A stage count that does not divide the layers is no plan of its: it has no answer there.
"""

import math
from dataclasses import replace

from course_utils.configs import machine_of
from course_utils.formulas.plan import Task, model_sizes, plan_bytes
from course_utils.formulas.step import Step

H100 = machine_of("H100-SXM", num_devices=8)


def step_seconds(step: Step) -> float:
    """Seconds of a step on devices that all reach each other equally fast."""
    if step.model.num_layers % step.plan.pipeline:
        return math.inf
    machine = replace(H100, num_devices=step.plan.num_devices)
    return Task(step.model, step.seq_len, step.num_sequences, machine).seconds_of(step.plan)


def rank_bytes(step: Step) -> int:
    """Bytes of the first rank: without the loss, where that lies on another stage."""
    sizes = model_sizes(step.model, step.seq_len)
    parts = plan_bytes(step.model, sizes, step.seq_len, step.num_sequences, step.plan)
    return sum(parts.values()) - (step.plan.pipeline > 1) * parts["loss"]
