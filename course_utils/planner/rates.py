"""What devices and links reach, from published tables: by number of nodes, by shape and size."""

import functools
import math

from course_utils.configs import Machine, machine_of
from course_utils.formulas.rates import (
    NODE,
    ROLES,
    Group,
    Links,
    Rates,
    Shape,
    nearest,
    ring_share,
)
from course_utils.records.sweeps import rows

TERA, GIGA, GIB, MICRO = 10**12, 10**9, 2**30, 1e-6
LINK_NAMES = {"B200": "high_intra_node", "A100-PCIe-80": "intra_node_pcie_{}x"}
H100 = machine_of("H100-SXM", num_devices=NODE)  # whose tables these are


@functools.cache
def node_rates(name: str) -> dict[Shape, float]:
    """Bus bandwidth of a collective in a node of H100s, by ranks and bytes."""
    return {
        (int(row["gpus"]), int(row["bytes"])): GIGA * float(row["busbw_gb_s"])
        for row in rows("h100_nccl_rates")
        if row["op"] == name
    }


@functools.cache
def cluster_rates(name: str) -> dict[Shape, float]:
    """Bus bandwidth of a collective over all devices of so many nodes, on the Playbook's H100s."""
    return {
        (int(row["nodes"]),): GIGA * float(row["line_gb_s"])
        for row in rows("playbook_bandwidth")
        if row["collective"] == name
    }


def h100_links(machine: Machine, name: str, num_bytes: float, group: Group) -> float:
    """Seconds at the rate of the nearest size in a node, or of the nearest number of nodes.

    The table of nodes has rings of all devices. Where other groups lie between the ranks of one,
    their rings share the adapters, and each has the rate over the square root of their number: it
    lies between none of the loss and all of it, as the Playbook's rows do. Links and adapters that
    are faster than the table's make all of it faster.
    """
    if group.num_nodes == 1:
        rate = nearest(node_rates(name), (group.num_ranks, max(1, round(num_bytes))))
        rate *= machine.link_bytes_per_second / H100.link_bytes_per_second
    else:
        rate = nearest(cluster_rates(name), (group.num_nodes,))
        rate /= math.sqrt(min(group.stride, NODE))
        rate *= machine.adapter_bytes_per_second / H100.adapter_bytes_per_second
    return ring_share(name, group.num_ranks) * num_bytes / rate


def plain_links(machine: Machine, name: str, num_bytes: float, group: Group) -> float:
    """Seconds of a ring at one rate in a node, and at that of its adapters between nodes.

    A ring of all devices uses every adapter of a node; as many as lie between its ranks share them.
    """
    rate = machine.link_bytes_per_second
    if group.num_nodes > 1:
        adapters = NODE // min(group.stride, NODE)
        rate = min(rate, adapters * machine.adapter_bytes_per_second)
    return ring_share(name, group.num_ranks) * num_bytes / rate


def with_messages(collectives: Links) -> Links:
    """The same, where a message to the next stage takes as long as a gather of two."""

    def seconds(name: str, num_bytes: float, group: Group) -> float:
        if name == "p2p":
            return 2 * collectives("all_gather", num_bytes, group)
        return collectives(name, num_bytes, group)

    return seconds


@functools.lru_cache(maxsize=64)
def rates_of(machine: Machine) -> Rates:
    """Rates of a machine, from tables by shape and size if its devices have some.

    Attention is at the peak, as the machine's constant wants it; memory at its bandwidth.
    """
    products: dict[Shape, float] = {(1, 1, 1): machine.matmul_flops_per_second}
    links = plain_links
    if machine.name == H100.name:
        faster = machine.matmul_flops_per_second / H100.matmul_flops_per_second
        links = h100_links
        products = {
            tuple(int(row[name]) for name in "mkn"): faster * TERA * float(row["tflops"])
            for row in rows("h100_gemm_rates")
        }
    half_of_the_square: dict[Shape, float] = {(1, 1): 2 * machine.peak_flops_per_second}
    return Rates(
        products={role: products for role in ROLES},
        forward=half_of_the_square,
        backward=half_of_the_square,
        memory_bytes_per_second=machine.memory_bytes_per_second,
        kernel_seconds=0.0,
        links=with_messages(functools.partial(links, machine)),
    )


@functools.cache
def simumax_rates(device: str) -> Rates:
    """Rates of a node of eight by SimuMax's tables.

    Args:
        device: A key of `LINK_NAMES`.
    """
    tables: dict[str, dict[Shape, float]] = {}
    for row in rows("simumax_rates"):
        is_product = row["op"] == "matmul"
        if row["device"] == device and (is_product or row["qk_head_dim"] == "128"):
            names = ("m", "k", "n") if is_product else ("seq_len", "heads")
            rate = float(row["efficiency"]) * float(row["peak_tflops"]) * TERA
            table = tables.setdefault(row["role"] if is_product else row["op"], {})
            table[tuple(int(row[name]) for name in names)] = rate
    memory = _constants()[device, "device_memory", "default"]
    return Rates(
        products={role: tables[role] for role in ROLES},
        forward=tables["sdp_fwd"],
        backward=tables["sdp_bwd"],
        memory_bytes_per_second=float(memory["nominal_gb_s"]) * GIB * float(memory["efficiency"]),
        kernel_seconds=MICRO * float(memory["latency_us"]),
        links=functools.partial(simumax_links, device),
    )


def simumax_links(device: str, name: str, num_bytes: float, group: Group) -> float:
    """Seconds of latency and of bytes over the bandwidth that was measured in a node.

    Where other groups lie between the ranks of this one, over what was measured then. The latency
    is that of each hop of a ring, or has a fixed one beside it.
    """
    ranks = group.num_ranks
    row, whole = (_constants()[device, LINK_NAMES[device].format(n), name] for n in (ranks, NODE))
    rate = float(row["nominal_gb_s"]) * float(row["efficiency"])
    if group.stride > 1:
        shared = dict(each.split(":") for each in whole["fixed_bandwidth_by_dp"].split())
        rate = float(shared.get(str(ranks), rate))
    hops = 1 if name == "p2p" or row["fixed_latency_us"] else ranks - 1
    latency = hops * float(row["latency_us"]) + float(row["fixed_latency_us"] or 0)
    share = 1.0 if name == "p2p" else ring_share(name, ranks)
    return num_bytes * share / (rate * GIB) + MICRO * latency


@functools.cache
def _constants() -> dict[tuple[str, str, str], dict[str, str]]:
    return {(row["device"], row["link"], row["op"]): row for row in rows("simumax_bandwidths")}
