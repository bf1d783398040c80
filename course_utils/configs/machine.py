"""Devices that train together, as a plan sees them, and the plan itself.

>>> machine = machine_of("A100-80", num_devices=4)
>>> Plan(data=4).num_devices == machine.num_devices
True
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

from course_utils.configs.hardware import device
from course_utils.configs.validation import find_named, require_positive

PLAN_TAKES_NAMES = "Plan takes each number by its name, as in Plan(data=4, zero_stage=1)"
OUTSIDE_BYTES = 2 * 10**9  # of a device, for the context, kernels and NCCL's buffers
OTHER_RANKS = {
    "context": {"context", "cp", "context_parallel", "context_parallel_size"},
    "expert": {"expert", "experts", "ep", "expert_parallel", "expert_parallel_size"},
}
LAST_STAGE = 3  # of ZeRO: optimizer states, gradients and weights are sharded
SEARCHED = ("data", "tensor", "pipeline", "zero_stage", "micro_batch", "is_recomputed")


@dataclass(frozen=True, kw_only=True)
class Machine:
    """Equal devices in nodes of eight: all that a plan has to know of them, and their price.

    Attributes:
        name: Of a device; where it is in `REACHED`, rates by shape and size are used that were
            measured on it.
        num_devices: How many.
        memory_bytes: Of each, as far as tensors may fill it.
        matmul_flops_per_second: That large matrix products reach.
        peak_flops_per_second: Dense peak in bf16, to which attention is compared.
        memory_bytes_per_second: Bandwidth of a device's memory.
        link_bytes_per_second: What each device of a node sends while all of them do.
        adapter_bytes_per_second: What each device's adapter sends to other nodes.
        attention: How many times as long as at the peak attention takes.
        elementwise: How many times as long as its bytes everything else takes.
        launch_seconds: Of the CPU, for each layer and micro-batch, forward and backward.
        turn_seconds: The same, more for each tensor rank where stages lie on several nodes.
        hop_seconds: The same, where tensor ranks do.
        spread_ratio: How many times as long as links say replicas' messages take beyond a node.
        usd_per_device_hour: A price; prices differ and change.
    """

    name: str = "device"
    num_devices: int
    memory_bytes: int
    matmul_flops_per_second: float
    peak_flops_per_second: float
    memory_bytes_per_second: float
    link_bytes_per_second: float
    adapter_bytes_per_second: float = 50e9
    attention: float
    elementwise: float
    launch_seconds: float = 4.51e-3
    turn_seconds: float = 2.20e-3
    hop_seconds: float = 0.343e-3
    spread_ratio: float = 0.686
    usd_per_device_hour: float = 2.5

    def __post_init__(self) -> None:
        """Refuse what no machine is.

        Raises:
            TypeError: If the number of devices is no int.
            ValueError: If there is no device, a rate is not above zero, or a time is below it.
        """
        require_positive("Machine", num_devices=self.num_devices)
        for name, number in vars(self).items():
            if name == "memory_bytes" or name.endswith("per_second"):
                if not number > 0:
                    raise ValueError(f"Machine: {name} must be above zero, got {number!r}")
            elif name != "name" and not number >= 0:
                raise ValueError(f"Machine: {name} must be zero or above, got {number!r}")

    def __str__(self) -> str:
        """How many of which device: ``8 × H100-SXM``."""
        return f"{self.num_devices} × {self.name}"


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
        has_fp32_gradients: Whether gradients are summed and kept in fp32 instead of bf16.
    """

    data: int = 1
    tensor: int = 1
    pipeline: int = 1
    zero_stage: int = 0
    micro_batch: int = 1
    is_recomputed: bool = False
    has_fp32_gradients: bool = False

    def __new__(cls, *unnamed: object, **named: object) -> Self:
        """Say how a plan is made, where Python would speak of positional arguments."""
        if unnamed:
            raise TypeError(f"{PLAN_TAKES_NAMES}; got {len(unnamed)} without a name")
        for ranks, names in OTHER_RANKS.items():
            if names & named.keys():
                raise ValueError(
                    f"Plan: there are no {ranks} ranks here; no run checks their steps"
                )
        return super().__new__(cls)

    def __post_init__(self) -> None:
        """Reject what makes no sense on any machine."""
        sizes = {name: getattr(self, name) for name in ("data", "tensor", "pipeline")}
        require_positive("Plan", **sizes, micro_batch=self.micro_batch)
        if self.zero_stage not in range(LAST_STAGE + 1):
            raise ValueError(f"Plan: zero_stage is 0, 1, 2 or 3, got {self.zero_stage!r}")

    @property
    def recipe(self) -> str:
        """The precision, by its name in `PRECISIONS`."""
        return "bf16-fp32-gradients" if self.has_fp32_gradients else "bf16"

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
        again += ", gradients in fp32" if self.has_fp32_gradients else ""
        sizes = f"d {self.data} t {self.tensor} p {self.pipeline}"
        return f"{sizes}, stage {self.zero_stage}, micro-batch {self.micro_batch}{again}"


class NoSuchPlan(ValueError):
    """A plan that is in no table, as it does not use all devices or does not divide what it cuts.

    Attributes:
        plan: The plan.
    """

    def __init__(self, plan: Plan, why: str = "") -> None:
        """Say what is wrong with such plans, and with this one if that is known."""
        why = f": {why}" if why else ""
        super().__init__(
            f"{plan}: no such plan; it has to use all devices, and to divide what it cuts{why}"
        )
        self.plan = plan


@dataclass(frozen=True)
class Costs:
    """Bytes and seconds of many plans, looked up.

    Attributes:
        table: By the key of a plan, its bytes on the fullest device and its seconds; under
            `OTHERS`, those of every other plan. No plan can be read from a key: who holds the
            table alone still has to search.
    """

    table: Mapping[str, Sequence[float]]
    OTHERS: ClassVar[str] = "others"
    NOBODY_RAN_IT: ClassVar[tuple[float, float]] = (10**18, 10.0**9)

    @staticmethod
    def key(plan: Plan) -> str:
        """A digest of the numbers of a plan that are searched, such as ``4.1.1.0.2.0``."""
        numbers = ".".join(str(int(getattr(plan, name))) for name in SEARCHED)
        return hashlib.blake2b(numbers.encode(), digest_size=8).hexdigest()

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


# What devices reach, what the driver gives of their memory, and two constants that are calibrated.
# Products: Bekman, Machine Learning Engineering Open Book, table of achievable matmul FLOPS
# (A100 SXM, H100 SXM). Rings: the same, bus bandwidth of an all-reduce of 16 GiB in one node; that
# of NVLink 4 was measured on H200. Adapters: one for each device, 200 and 400 Gb/s (DGX A100 and
# H100 data sheets). GiB: total capacity in PyTorch's messages, as in CoSeR issue 10, accelerate
# issue 1864, lightning-thunder issue 474; others differ by up to 0.1. Constants of the A100s:
# `planner.calibrated` on llm-foundry's settled rows; of the H100, and every machine's seconds of
# layers: nanotron's, on all of the Playbook's rows (`planner.truth.steps`), attention as before.
# Prices are assumed.
REACHED: dict[str, dict[str, float]] = {
    "A100-80": {
        "gib": 79.15,
        "matmul": 271.2e12,
        "link": 234.89e9,
        "adapter": 25e9,
        "attention": 3.16,
        "elementwise": 2.91,
        "usd": 1.5,
    },
    "A100-40": {
        "gib": 39.50,
        "matmul": 271.2e12,
        "link": 234.89e9,
        "adapter": 25e9,
        "attention": 3.16,
        "elementwise": 2.91,
        "usd": 1.2,
    },
    "H100-SXM": {
        "gib": 79.11,
        "matmul": 794.5e12,
        "link": 367.61e9,
        "adapter": 50e9,
        "attention": 5.53,
        "elementwise": 2.80,
        "usd": 2.5,
    },
}


def machine_of(device_name: str, num_devices: int) -> Machine:
    """Nodes of a device whose rates are known, with the constants of measured software.

    Raises:
        ValueError: If its rates are not known; the message lists similar names.
    """
    reached, sheet = find_named("machine", device_name, REACHED), device(device_name)
    return Machine(
        name=device_name,
        num_devices=num_devices,
        memory_bytes=round(reached["gib"] * 2**30) - OUTSIDE_BYTES,
        matmul_flops_per_second=reached["matmul"],
        peak_flops_per_second=sheet.dense_flops_per_second("bf16"),
        memory_bytes_per_second=sheet.bandwidth_bytes_per_second,
        link_bytes_per_second=reached["link"],
        adapter_bytes_per_second=reached["adapter"],
        attention=reached["attention"],
        elementwise=reached["elementwise"],
        usd_per_device_hour=reached["usd"],
    )
