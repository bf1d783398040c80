"""What one layer takes on several ranks: computing, which they share, and exchange."""

import math
from typing import Any

from course_utils import colours
from course_utils.configs import preset
from course_utils.distributed import Link, Network
from course_utils.show.picture import Picture, axes

RANKS = (1, 2, 4, 8, 16)
FLOPS_PER_SECOND, LATENCY_SECONDS, BETWEEN_LATENCY_SECONDS = 600e12, 5e-6, 10e-6
MS_OF_8192_TOKENS = 20  # height of the axis, which stays where most controls move


def layer_milliseconds(
    num_tokens: int, inside_gb_per_second: int, between_gb_per_second: int
) -> dict[int, tuple[float, float]]:
    """Milliseconds of computing and of exchange of one layer of Llama-3-8B, by number of ranks.

    Its seven matrices, forward and backward; four all-reduces that nothing hides.

    Args:
        num_tokens: Tokens of a pass.
        inside_gb_per_second: Of a link in a node of eight devices, in GB/s.
        between_gb_per_second: Of one between nodes, in GB/s.
    """
    model = preset("Llama-3-8B")
    h, keys = model.hidden_size, model.num_kv_heads * model.head_dim
    flops = 6 * num_tokens * h * (2 * h + 2 * keys + 3 * model.ffn_size)
    network = Network(
        inside=_link(LATENCY_SECONDS, inside_gb_per_second),
        between=_link(BETWEEN_LATENCY_SECONDS, between_gb_per_second),
        devices_per_node=8,
    )
    return {
        t: (
            1e3 * flops / t / FLOPS_PER_SECOND,
            4e3 * network.seconds("all_reduce", 2 * num_tokens * h, range(t)),
        )
        for t in RANKS
    }


def _link(latency_seconds: float, gb_per_second: int) -> Link:
    return Link(latency_seconds=latency_seconds, bandwidth_bytes_per_second=gb_per_second * 10**9)


def layer_over_ranks(num_tokens: int, inside: int, between: int) -> Picture:
    """Bars of one layer of Llama-3-8B on one to sixteen devices, in nodes of eight.

    Args:
        num_tokens: Tokens of a pass.
        inside: GB/s of a link inside a node.
        between: GB/s of a link between nodes.
    """
    parts = layer_milliseconds(num_tokens, inside, between)
    figure, ax = axes(height=2.9)
    places = range(len(RANKS))
    compute, exchange = zip(*parts.values(), strict=True)
    totals = [math.fsum(each) for each in parts.values()]
    look: Any = {"width": 0.6}
    ax.bar(places, compute, color=colours.COMPUTE, label="computing", **look)
    ax.bar(places, exchange, bottom=compute, color=colours.COMMUNICATION, label="exchange", **look)
    for place, total in zip(places, totals, strict=True):
        ax.annotate(f"{total:.2f}", (place, total), ha="center", va="bottom")
    ax.set_ylim(0, 1.12 * max(MS_OF_8192_TOKENS * num_tokens / 8192, *totals))
    ax.set_xticks(places, [f"{t}" if t < RANKS[-1] else f"{t}, two nodes" for t in RANKS])
    ax.set(xlabel="devices that share the layer", ylabel="ms")
    figure.legend(ncols=2, frameon=False, loc="outside upper center")
    best = min(parts, key=lambda t: math.fsum(parts[t]))
    return Picture(
        figure,
        f"One layer of Llama-3-8B, {num_tokens:,} tokens, forward and backward: fastest on {best}, "
        f"{totals[RANKS.index(best)]:.2f} ms; on eight, "
        f"{exchange[3] / totals[3]:.0%} of the time is exchange.",
    )
