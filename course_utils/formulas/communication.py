"""How much compute hides an all-reduce?

Conventions: in a ring, each of d ranks sends and receives ``2 (d - 1) / d`` of the bytes; the
backward pass takes 4 FLOPs per parameter and token. Left out: latency, attention, and the last
gradients, after which there is nothing left to compute.

    >>> min_hiding_tokens(1024, 4, 2, 64, 512)
    6

Sources: Hugging Face, The Ultra-Scale Playbook, appendix on overlap; its ratio keeps the number of
parameters, which cancels, and leaves out the bytes of an element.
"""

from fractions import Fraction
from math import ceil


def min_hiding_tokens(
    num_params: int,
    num_ranks: int,
    bytes_per_element: int,
    bytes_per_second: int,
    flops_per_second: int,
) -> int:
    """Fewest tokens per rank whose backward pass takes at least as long as the all-reduce.

    ``bytes_per_element (d - 1) / d * flops_per_second / (2 bytes_per_second)``, rounded up.

    Args:
        num_params: Parameters, which cancel.
        num_ranks: Ranks d that share a batch.
        bytes_per_element: Of a gradient.
        bytes_per_second: Of a link in each direction.
        flops_per_second: Achieved by one device.
    """
    sent_bytes = Fraction(2 * (num_ranks - 1), num_ranks) * num_params * bytes_per_element
    flops_per_token = 4 * num_params
    return ceil(sent_bytes / bytes_per_second * flops_per_second / flops_per_token)
