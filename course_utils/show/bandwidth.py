"""Bus bandwidth of all-reduces over more and more nodes: measured, and by the ring formula."""

from course_utils import colours
from course_utils.distributed import Link, Network
from course_utils.records.sweeps import rows
from course_utils.show.picture import Picture, axes, log_ticks
from course_utils.traces import bus_bytes_per_second, made

MESSAGE_BYTES = 256 * 10**6
DEVICES_PER_NODE, ADAPTER_BYTES_PER_SECOND = 8, 50e9
BETWEEN_SECONDS = 10e-6  # of a message between nodes, as in the toy of unit 11
INSIDE_SECONDS = 1.1e-6  # in a node: 14 of them make NVIDIA's all-reduce of 512 bytes (nccl_rates)
MEAN_SECONDS = INSIDE_SECONDS + (BETWEEN_SECONDS - INSIDE_SECONDS) / DEVICES_PER_NODE
LATENCIES = {  # of each message of a ring, by label and style of its line
    "ring, no latency": (0.0, ":"),
    "ring, 1.1 µs inside, 10 between": (MEAN_SECONDS, "--"),
    "ring, 10 µs everywhere": (BETWEEN_SECONDS, "-"),
}
GIGA = 1e9


def _ring_bus_bandwidth(num_ranks: int, latency_seconds: float) -> float:
    """GB/s of a ring that uses all adapters of a node, as nccl-tests counts them."""
    bandwidth = DEVICES_PER_NODE * ADAPTER_BYTES_PER_SECOND
    link = Link(latency_seconds=latency_seconds, bandwidth_bytes_per_second=bandwidth)
    seconds = Network(inside=link).seconds("all_reduce", MESSAGE_BYTES, range(num_ranks))
    call = made(kind="communication", name="all_reduce", bytes=MESSAGE_BYTES)
    return bus_bytes_per_second(call, num_ranks, seconds) / GIGA


def bandwidth_over_nodes() -> Picture:
    """All-reduces of 256 MB on 1 to 64 nodes in the Playbook's cluster, and the ring formula."""
    table = [row for row in rows("playbook_bandwidth") if row["collective"] == "all_reduce"]
    nodes = [int(row["nodes"]) for row in table]
    median, low, high = (
        [float(row[name]) for row in table]
        for name in ("line_gb_s", "band_lower_gb_s", "band_upper_gb_s")
    )
    figure, ax = axes(height=3.2)
    ax.fill_between(
        nodes, low, high, color=colours.NEUTRAL, alpha=0.25, label="5th to 95th percentile"
    )
    ax.plot(nodes, median, "o", color=colours.MEASURED, label="measured, median")
    between = [each for each in nodes if each > 1]
    for label, (latency, style) in LATENCIES.items():
        ring = [_ring_bus_bandwidth(DEVICES_PER_NODE * each, latency) for each in between]
        ax.plot(between, ring, style, color=colours.COMPUTED, label=label)
    ax.set_ylim(0, 500)
    log_ticks(ax, nodes)
    ax.set_xlabel("nodes of eight H100 (log scale)")
    ax.set_ylabel("bandwidth, GB/s")
    ax.legend(frameon=False)
    caption = (
        f"All-reduces of 256 MB in the Playbook's cluster: {median[0]:.0f} GB/s in one node, "
        f"{median[1]:.0f} on two, {median[3]:.0f} on eight, {median[-1]:.0f} on {nodes[-1]}. A "
        f"ring with 10 µs on every hop would reach {_ring_bus_bandwidth(64, BETWEEN_SECONDS):.0f} "
        f"on eight, with 1.1 µs inside a node {_ring_bus_bandwidth(64, MEAN_SECONDS):.0f}."
    )
    return Picture(figure, caption)
