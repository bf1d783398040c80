"""Which plans are there, and which of them is the fastest that fits?

>>> costs = PlanCosts(preset("Llama-3.2-1B"), 4096, 256, machine_of("A100-80", num_devices=4))
>>> print(best_plan(costs.model, costs.num_sequences, costs.machine, costs))
d 4 t 1 p 1, stage 0, micro-batch 4
"""

from collections.abc import Iterator, Mapping
from typing import Protocol

from course_utils.configs import LAST_STAGE, Machine, ModelConfig, Plan


class PlanTable(Protocol):
    """Bytes and seconds of each plan."""

    def bytes_of(self, plan: Plan, /) -> float:
        """Bytes on the fullest device."""
        ...

    def seconds_of(self, plan: Plan, /) -> float:
        """Seconds of a step."""
        ...


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


def best_plan(model: ModelConfig, num_sequences: int, machine: Machine, costs: PlanTable) -> Plan:
    """The fastest of all plans that fit.

    Args:
        model: What is trained.
        num_sequences: Of a step, on all devices.
        machine: The devices.
        costs: Bytes and seconds of each plan, looked up or computed.

    Raises:
        ValueError: If none fits.
    """
    num_bytes = {each: costs.bytes_of(each) for each in plans(model, num_sequences, machine)}
    fitting = [plan for plan, each in num_bytes.items() if each <= machine.memory_bytes]
    if not fitting:
        raise ValueError(why_none(model, num_sequences, machine, num_bytes))
    return min(fitting, key=costs.seconds_of)


def why_none(
    model: ModelConfig, num_sequences: int, machine: Machine, num_bytes: Mapping[Plan, float]
) -> str:
    """Why no plan is left: none divides what it has to, or the smallest is too large."""
    if not num_bytes:
        return (
            f"no plan uses all of {machine.num_devices} devices: tensor ranks have to divide "
            f"{model.num_kv_heads} key and value heads, stages {model.num_layers} layers, replicas "
            f"{num_sequences} sequences; take another number of devices"
        )
    smallest = min(num_bytes, key=num_bytes.__getitem__)
    return (
        f"no plan fits: the smallest ({smallest}) takes {num_bytes[smallest] / 1e9:.0f} of "
        f"{machine.memory_bytes / 1e9:.0f} GB; take more devices, or shorter sequences"
    )
