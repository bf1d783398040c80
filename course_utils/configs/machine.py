"""Devices that train together, as a plan sees them, and the plan itself.

>>> machine = machine_of("A100-80", num_devices=4)
>>> Plan(data=4).num_devices == machine.num_devices
True
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

from course_utils.configs.hardware import device
from course_utils.configs.validation import find_named, require_positive

PLAN_TAKES_NAMES = "Plan takes each number by its name, as in Plan(data=4, zero_stage=1)"
OUTSIDE_BYTES = 2 * 10**9  # of a device, for the context, kernels and NCCL's buffers
LAST_STAGE = 3  # of ZeRO: optimizer states, gradients and weights are sharded


@dataclass(frozen=True, kw_only=True)
class Machine:
    """Equal devices that all reach each other equally fast.

    Attributes:
        num_devices: How many.
        memory_bytes: Of each, as far as tensors may fill it.
        matmul_flops_per_second: That large matrix products reach.
        peak_flops_per_second: Dense peak in bf16, to which attention is compared.
        memory_bytes_per_second: Bandwidth of a device's memory.
        link_bytes_per_second: What each device sends while all of them do.
        attention: How many times as long as at the peak attention takes.
        elementwise: How many times as long as its bytes everything else takes.
    """

    num_devices: int
    memory_bytes: int
    matmul_flops_per_second: float
    peak_flops_per_second: float
    memory_bytes_per_second: float
    link_bytes_per_second: float
    attention: float
    elementwise: float


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How a run is spread over a machine.

    Attributes:
        data: Replicas d that see different sequences.
        tensor: Devices t that share each layer, with sequence parallelism.
        pipeline: Stages p, with 1F1B.
        zero_stage: What the replicas shard, 0 to 3.
        micro_batch: Sequences b of one pass.
        is_recomputed: Whether every layer keeps its input alone and runs again.
    """

    data: int = 1
    tensor: int = 1
    pipeline: int = 1
    zero_stage: int = 0
    micro_batch: int = 1
    is_recomputed: bool = False

    def __new__(cls, *unnamed: object, **_named: object) -> Self:
        """Say how a plan is made, where Python would speak of positional arguments."""
        if unnamed:
            raise TypeError(f"{PLAN_TAKES_NAMES}; got {len(unnamed)} without a name")
        return super().__new__(cls)

    def __post_init__(self) -> None:
        """Reject what makes no sense on any machine."""
        sizes = {name: getattr(self, name) for name in ("data", "tensor", "pipeline")}
        require_positive("Plan", **sizes, micro_batch=self.micro_batch)
        if self.zero_stage not in range(LAST_STAGE + 1):
            raise ValueError(f"Plan: zero_stage is 0, 1, 2 or 3, got {self.zero_stage!r}")

    @property
    def num_devices(self) -> int:
        """Devices that it takes: ``d t p``."""
        return self.data * self.tensor * self.pipeline

    def num_micro_batches(self, num_sequences: int) -> int:
        """Passes m of each replica in a step."""
        return num_sequences // (self.data * self.micro_batch)

    def __str__(self) -> str:
        """In short: ``d 4 t 1 p 1, stage 0, micro-batch 1``."""
        again = ", layers run again" if self.is_recomputed else ""
        sizes = f"d {self.data} t {self.tensor} p {self.pipeline}"
        return f"{sizes}, stage {self.zero_stage}, micro-batch {self.micro_batch}{again}"


class NoSuchPlan(ValueError):
    """A plan that is in no table, as it does not use all devices or does not divide what it cuts.

    Attributes:
        plan: The plan.
    """

    def __init__(self, plan: Plan) -> None:
        """Say what is wrong with such plans."""
        super().__init__(
            f"{plan}: no such plan; it has to use all devices, and to divide what it cuts"
        )
        self.plan = plan


@dataclass(frozen=True)
class Costs:
    """Bytes and seconds of many plans, looked up.

    Attributes:
        table: By the numbers of a plan as text, its bytes on the fullest device and its seconds;
            under `OTHERS`, those of every other plan.
    """

    table: Mapping[str, Sequence[float]]
    OTHERS: ClassVar[str] = "others"
    NOBODY_RAN_IT: ClassVar[tuple[float, float]] = (10**18, 10.0**9)

    @staticmethod
    def key(plan: Plan) -> str:
        """The numbers of a plan as text: ``4.1.1.0.2.0``."""
        return ".".join(str(int(each)) for each in vars(plan).values())

    def bytes_of(self, plan: Plan) -> float:
        """Bytes on the fullest device.

        Raises:
            NoSuchPlan: If the table does not have it.
        """
        return self._row(plan)[0]

    def seconds_of(self, plan: Plan) -> float:
        """Seconds of a step.

        Raises:
            NoSuchPlan: If the table does not have it.
        """
        return self._row(plan)[1]

    def _row(self, plan: Plan) -> Sequence[float]:
        row = self.table.get(self.key(plan), self.table.get(self.OTHERS))
        if row is None:
            raise NoSuchPlan(plan)
        return row

    def __repr__(self) -> str:
        """How many plans there are."""
        return f"<costs of {len(self.table)} plans>"


# Rates that products and rings reach, and two constants that are calibrated.
# Products: Bekman, Machine Learning Engineering Open Book, table of achievable matmul FLOPS
# (A100 SXM, H100 SXM). Rings: the same, bus bandwidth of an all-reduce of 16 GiB in one node; that
# of NVLink 4 was measured on H200. Constants: `planner.calibrated` on llm-foundry's settled rows;
# A100-40 has those of A100-80.
REACHED: dict[str, dict[str, float]] = {
    "A100-80": {"matmul": 271.2e12, "link": 234.89e9, "attention": 3.15, "elementwise": 2.91},
    "A100-40": {"matmul": 271.2e12, "link": 234.89e9, "attention": 3.15, "elementwise": 2.91},
    "H100-SXM": {"matmul": 794.5e12, "link": 367.61e9, "attention": 5.53, "elementwise": 3.92},
}


def machine_of(device_name: str, num_devices: int) -> Machine:
    """One node of a device whose rates are known, with constants of software of 2023.

    Raises:
        ValueError: If its rates are not known; the message lists similar names.
    """
    reached, sheet = find_named("machine", device_name, REACHED), device(device_name)
    return Machine(
        num_devices=num_devices,
        memory_bytes=sheet.memory_bytes - OUTSIDE_BYTES,
        matmul_flops_per_second=reached["matmul"],
        peak_flops_per_second=sheet.dense_flops_per_second("bf16"),
        memory_bytes_per_second=sheet.bandwidth_bytes_per_second,
        link_bytes_per_second=reached["link"],
        attention=reached["attention"],
        elementwise=reached["elementwise"],
    )
