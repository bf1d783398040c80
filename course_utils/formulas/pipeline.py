"""Pipeline parallelism in numbers: how to cut, how long it takes, what is in flight, what travels.

With p stages, m micro-batches and F and B of f and b seconds:

    seconds of GPipe and of 1F1B     (m + p - 1) (f + b)
    of them each stage is idle       (p - 1) (f + b)
    in flight, GPipe                 m
    in flight on stage s, 1F1B       min(m, p - s)

Sources: Huang et al. 2019, "GPipe", section 2; Narayanan et al. 2021, "Efficient Large-Scale
Language Model Training on GPU Clusters", section 2.2.
"""

import functools
from collections.abc import Sequence


def cut_into_stages(seconds: Sequence[int], num_stages: int) -> list[int]:
    """How many of the pieces each stage gets, so that the slowest is as fast as possible.

    Args:
        seconds: Of each piece of the model, in order; at least as many as stages.
        num_stages: Stages p, none of them empty.
    """

    @functools.cache
    def best(first: int, stages: int) -> tuple[int, tuple[int, ...]]:
        """Seconds of the slowest stage, and the sizes, from a piece on."""
        left = len(seconds) - first
        if stages == 1:
            return sum(seconds[first:]), (left,)
        cuts = []
        for size in range(1, left - stages + 2):
            slowest, sizes = best(first + size, stages - 1)
            own = sum(seconds[first : first + size])
            cuts.append((max(own, slowest), (size, *sizes)))
        return min(cuts)

    return list(best(0, num_stages)[1])


def pipeline_costs(
    num_stages: int,
    num_micro_batches: int,
    forward_seconds: int,
    backward_seconds: int,
    stage: int,
) -> dict[str, int]:
    """Seconds of a step, idle seconds of a stage, and its micro-batches in flight.

    Returns:
        ``seconds`` and ``idle_seconds``, the same for GPipe and 1F1B; ``gpipe`` and ``1f1b``, the
        micro-batches in flight on the stage.
    """
    both = forward_seconds + backward_seconds
    return {
        "seconds": (num_micro_batches + num_stages - 1) * both,
        "idle_seconds": (num_stages - 1) * both,
        "gpipe": num_micro_batches,
        "1f1b": min(num_micro_batches, num_stages - stage),
    }


def boundary_bytes(
    num_stages: int, num_chunks: int, num_micro_batches: int, tensor_bytes: int, is_v: bool
) -> int:
    """Bytes of all messages of a step: activations forward, their gradients back.

    Between two parts on one stage nothing travels: with one stage anywhere, in a V at each turn.
    """
    borders = num_stages * num_chunks - 1
    inside = num_chunks - 1 if is_v or num_stages == 1 else 0
    return 2 * num_micro_batches * (borders - inside) * tensor_bytes
