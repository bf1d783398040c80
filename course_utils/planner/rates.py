"""What devices and links reach, from published tables: by number of nodes, by shape and size."""

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from course_utils.configs import Machine, machine_of
from course_utils.formulas.cluster_step import Group
from course_utils.records.sweeps import rows

TERA, GIGA, GIB, MICRO = 10**12, 10**9, 2**30, 1e-6
NODE = 8  # devices
OF_PLAYBOOK = {
    "all_reduce": "AllReduce",
    "all_gather": "AllGather",
    "reduce_scatter": "ReduceScatter",
}

Shape = tuple[int, ...]


def ring_share(name: str, num_ranks: int) -> float:
    """How often each device of a ring sends the whole message: less than once, or twice."""
    return (2 if name == "all_reduce" else 1) * (num_ranks - 1) / num_ranks


@functools.cache
def bus_bytes_per_second(name: str) -> dict[int, float]:
    """Bus bandwidth of a device by number of nodes, in the Playbook's cluster of H100s."""
    return {
        int(row["nodes"]): GIGA * float(row["line_gb_s"])
        for row in rows("playbook_bandwidth")
        if row["collective"] == OF_PLAYBOOK[name]
    }


class Links(Protocol):
    """What carries messages."""

    def seconds(self, name: str, num_bytes: float, group: Group) -> float:
        """Of a collective, or of ``p2p``, in a group."""


@dataclass(frozen=True)
class ClusterRates:
    """One rate for each kind of work.

    Attributes:
        machine: A device's rates.
        links: What carries messages.
    """

    machine: Machine
    links: Links

    def linear(self, num_tokens: int, inner: int, outer: int) -> float:
        """Three products at the rate that large ones reach."""
        return 6 * num_tokens * inner * outer / self.machine.matmul_flops_per_second

    def attention(self, num_sequences: int, seq_len: int, num_heads: int, head_dim: int) -> float:
        """Half of the square, forward and 2.5 times backward, with llm-foundry's constant.

        The Playbook's rows cannot tell attention from kernels that move bytes: both grow alike.
        """
        flops = 7 * num_sequences * seq_len**2 * num_heads * head_dim
        return self.machine.attention * flops / self.machine.peak_flops_per_second

    def moving(self, num_bytes: float, _num_kernels: int = 0) -> float:
        """Bytes at the memory's bandwidth; what a kernel costs is in the constants."""
        return num_bytes / self.machine.memory_bytes_per_second

    def collective(self, name: str, num_bytes: float, group: Group) -> float:
        """As the links carry it."""
        return self.links.seconds(name, num_bytes, group) if group.num_ranks > 1 else 0.0

    def to_next_stage(self, num_bytes: float, stride: int) -> float:
        """As the links carry it."""
        return self.links.seconds("p2p", num_bytes, Group(2, stride))


@dataclass(frozen=True, kw_only=True)
class ShapeRates:
    """Rates by shape and size; of a shape that was not measured, that of the nearest one.

    Attributes:
        products: FLOP/s by role (``""`` where they are not told apart), m, k and n.
        attention_rates: FLOP/s of the full square by pass, length and heads.
        memory_bytes_per_second: That kernels reach.
        kernel_seconds: Of a kernel, however little it moves.
        links: What carries messages.
    """

    products: Mapping[str, Mapping[Shape, float]]
    attention_rates: Mapping[str, Mapping[Shape, float]]
    memory_bytes_per_second: float
    kernel_seconds: float
    links: Links

    def linear(self, num_tokens: int, inner: int, outer: int) -> float:
        """Forward, gradient of the input, gradient of the weight, each at its own rate."""
        shapes = {
            "forward": (num_tokens, inner, outer),
            "grad_input": (num_tokens, outer, inner),
            "grad_weight": (outer, num_tokens, inner),
        }
        rates = [
            nearest(self.products.get(role) or self.products[""], shape)
            for role, shape in shapes.items()
        ]
        return 2 * num_tokens * inner * outer * math.fsum(1 / rate for rate in rates)

    def attention(self, num_sequences: int, seq_len: int, num_heads: int, head_dim: int) -> float:
        """Forward, and backward with 2.5 times its FLOPs."""
        flops = 4 * num_sequences * seq_len**2 * num_heads * head_dim
        shape = seq_len, num_heads
        forward, backward = (nearest(self.attention_rates[x], shape) for x in ("fwd", "bwd"))
        return flops / forward + 2.5 * flops / backward

    def moving(self, num_bytes: float, num_kernels: int = 0) -> float:
        """Bytes at the memory's bandwidth, and what the kernels themselves cost."""
        return num_bytes / self.memory_bytes_per_second + num_kernels * self.kernel_seconds

    def collective(self, name: str, num_bytes: float, group: Group) -> float:
        """As the links carry it."""
        return self.links.seconds(name, num_bytes, group) if group.num_ranks > 1 else 0.0

    def to_next_stage(self, num_bytes: float, stride: int) -> float:
        """As the links carry it."""
        return self.links.seconds("p2p", num_bytes, Group(2, stride))


def nearest(measured: Mapping[Shape, float], shape: Shape) -> float:
    """The rate of the shape with the least sum of ratios, in logarithms."""
    return measured[min(measured, key=lambda each: _distance(each, shape))]


def _distance(one: Shape, other: Shape) -> float:
    return math.fsum(abs(math.log(a / b)) for a, b in zip(one, other, strict=True))


@dataclass(frozen=True)
class NodeLinks:
    """The links inside of a node, by SimuMax's constants for a device.

    Attributes:
        device: As in the table.
        name: Of the link, with a place for the number of ranks.
    """

    device: str
    name: str

    def seconds(self, name: str, num_bytes: float, group: Group) -> float:
        """Latency and bytes over the bandwidth that was measured.

        Where other groups lie between the ranks of this one, over what was measured then.
        """
        row = self._row(name, group.num_ranks)
        rate = float(row["nominal_gb_s"]) * float(row["efficiency"])
        if group.stride > 1:
            whole = self._row(name, NODE)["fixed_bandwidth_by_dp"].split()
            shared = dict(each.split(":") for each in whole)
            rate = float(shared.get(str(group.num_ranks), rate))
        share = 1.0 if name == "p2p" else ring_share(name, group.num_ranks)
        return num_bytes * share / (rate * GIB) + MICRO * self._latency(row, name, group.num_ranks)

    def _latency(self, row: Mapping[str, str], name: str, num_ranks: int) -> float:
        """Microseconds: of each hop of a ring, or a fixed one beside them."""
        hops = 1 if name == "p2p" or row["fixed_latency_us"] else num_ranks - 1
        return hops * float(row["latency_us"]) + float(row["fixed_latency_us"] or 0)

    def _row(self, name: str, num_ranks: int) -> dict[str, str]:
        return _links()[self.device, self.name.format(num_ranks), name]


@functools.cache
def _links() -> dict[tuple[str, str, str], dict[str, str]]:
    return {(row["device"], row["link"], row["op"]): row for row in rows("simumax_bandwidths")}


@dataclass(frozen=True)
class H100Links:
    """The links of H100s: in a node by size, beyond it by the nodes that a group spans.

    The table of nodes has rings of all devices. Where other groups lie between the ranks of one,
    their rings share the adapters, and each has the rate over the square root of their number: it
    lies between none of the loss and all of it, as the Playbook's rows do.
    """

    def seconds(self, name: str, num_bytes: float, group: Group) -> float:
        """At the rate of the nearest size, or on so many nodes; to a stage as a gather of two."""
        if name == "p2p":
            return 2 * self.seconds("all_gather", num_bytes, group)
        if group.num_nodes == 1:
            rate = nearest(_nccl()[name, group.num_ranks], (round(num_bytes),))
        else:
            measured = bus_bytes_per_second(name)
            nodes = min(group.num_nodes, max(measured))
            rate = measured[min(each for each in measured if each >= nodes)]
            rate /= math.sqrt(min(group.stride, NODE))
        return ring_share(name, group.num_ranks) * num_bytes / rate


@functools.cache
def _nccl() -> dict[tuple[str, int], dict[Shape, float]]:
    """Bus bandwidth by collective and ranks, and by size."""
    found: dict[tuple[str, int], dict[Shape, float]] = {}
    for row in rows("h100_nccl_rates"):
        sizes = found.setdefault((row["op"], int(row["gpus"])), {})
        sizes[int(row["bytes"]),] = GIGA * float(row["busbw_gb_s"])
    return found


H100_CLUSTER = ClusterRates(machine_of("H100-SXM", num_devices=NODE), H100Links())


@functools.cache
def h100_rates() -> ShapeRates:
    """Rates of H100s: products and collectives by shape and size, attention of an H200.

    Source of the memory's bandwidth: the data sheet; no table has it.
    """
    products = {
        tuple(int(row[name]) for name in "mkn"): TERA * float(row["tflops"])
        for row in rows("h100_gemm_rates")
    }
    attention: dict[str, dict[Shape, float]] = {"fwd": {}, "bwd": {}}
    for row in rows("h200_attention_rates"):  # the source counts half of the square
        shape = int(row["seq"]), int(row["heads"])
        attention[row["pass"]][shape] = 2 * TERA * float(row["tflops"])
    return ShapeRates(
        products={"": products},
        attention_rates=attention,
        memory_bytes_per_second=H100_CLUSTER.machine.memory_bytes_per_second,
        kernel_seconds=0.0,
        links=H100_CLUSTER.links,
    )


LINK_NAMES = {"B200": "high_intra_node", "A100-PCIe-80": "intra_node_pcie_{}x"}


@functools.cache
def simumax_rates(device: str) -> ShapeRates:
    """Rates of a node of eight by SimuMax's tables.

    Args:
        device: A key of `LINK_NAMES`.
    """
    products: dict[str, dict[Shape, float]] = {}
    attention: dict[str, dict[Shape, float]] = {}
    for row in rows("simumax_rates"):
        if row["device"] != device:
            continue
        rate = float(row["efficiency"]) * float(row["peak_tflops"]) * TERA
        if row["op"] == "matmul":
            shape = tuple(int(row[name]) for name in "mkn")
            products.setdefault(row["role"], {})[shape] = rate
        elif row["qk_head_dim"] == "128":
            shape = int(row["seq_len"]), int(row["heads"])
            attention.setdefault(row["op"].removeprefix("sdp_"), {})[shape] = rate
    memory = _links()[device, "device_memory", "default"]
    return ShapeRates(
        products=products,
        attention_rates=attention,
        memory_bytes_per_second=float(memory["nominal_gb_s"]) * GIB * float(memory["efficiency"]),
        kernel_seconds=MICRO * float(memory["latency_us"]),
        links=NodeLinks(device, LINK_NAMES[device]),
    )
