"""Which plans are there, and which of them is the fastest that fits?

>>> model, machine = preset("Llama-3.2-1B"), machine_of("A100-80", num_devices=4)
>>> print(best_plan(model, 256, machine, Task(model, 4096, 256, machine)))
d 4 t 1 p 1, stage 1, micro-batch 1
"""

from collections.abc import Iterator

from course_utils.configs import LAST_STAGE, Costs, Machine, ModelConfig, Plan
from course_utils.formulas.plan import Task


def plans(model: ModelConfig, num_sequences: int, machine: Machine) -> Iterator[Plan]:
    """Every plan that uses all devices and divides what it has to.

    Tensor sizes divide the key and value heads, stages the layers, replicas and micro-batches the
    sequences; a single replica shards nothing.
    """
    devices = range(1, machine.num_devices + 1)
    for tensor in (n for n in devices if model.num_kv_heads % n == 0):
        for pipeline in (n for n in devices if model.num_layers % n == 0):
            data, rest = divmod(machine.num_devices, tensor * pipeline)
            if not rest and data and num_sequences % data == 0:
                yield from _of_layout(data, tensor, pipeline, num_sequences // data)


def _of_layout(data: int, tensor: int, pipeline: int, own_sequences: int) -> Iterator[Plan]:
    stages = range(LAST_STAGE + 1 if data > 1 else 1)
    for micro_batch in (n for n in range(1, own_sequences + 1) if own_sequences % n == 0):
        for stage in stages:
            for is_recomputed in (False, True):
                yield Plan(
                    data=data,
                    tensor=tensor,
                    pipeline=pipeline,
                    zero_stage=stage,
                    micro_batch=micro_batch,
                    is_recomputed=is_recomputed,
                )


def best_plan(
    model: ModelConfig, num_sequences: int, machine: Machine, costs: Costs | Task
) -> Plan:
    """The fastest of all plans that fit.

    Args:
        model: What is trained.
        num_sequences: Of a step, on all devices.
        machine: The devices.
        costs: Bytes and seconds of each plan, looked up or computed.

    Raises:
        ValueError: If none fits.
    """
    fitting = [
        plan
        for plan in plans(model, num_sequences, machine)
        if costs.bytes_of(plan) <= machine.memory_bytes
    ]
    if not fitting:
        raise ValueError("no plan fits: take more devices, or shorter sequences")
    return min(fitting, key=costs.seconds_of)
