"""What do parallel ranks send, and how much compute hides it?

Conventions: in a ring, each of d ranks sends and receives ``2 (d - 1) / d`` of the bytes; the
backward pass takes 4 FLOPs per parameter and token. Left out: latency, attention, and the last
gradients, after which there is nothing left to compute.

    >>> ring_all_reduce_bytes(1024, 4)
    Fraction(1536, 1)
    >>> min_hiding_tokens(1024, 4, 2, 64, 512)
    6

Sources: Hugging Face, The Ultra-Scale Playbook, appendix on overlap; its ratio keeps the number of
parameters, which cancels, and leaves out the bytes of an element.
"""

from fractions import Fraction
from math import ceil


def ring_all_reduce_bytes(num_bytes: int, num_ranks: int) -> Fraction:
    """Bytes that each rank of a ring sends to sum a tensor: ``2 (d - 1) / d`` of its own.

    A fraction, since the tensor may be cut into unequal parts: then it is the mean of the ranks.

    Args:
        num_bytes: Of the tensor.
        num_ranks: Ranks d that have one each.
    """
    return Fraction(2 * (num_ranks - 1), num_ranks) * num_bytes


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
    sent_bytes = ring_all_reduce_bytes(num_params * bytes_per_element, num_ranks)
    flops_per_token = 4 * num_params
    return ceil(sent_bytes / bytes_per_second * flops_per_second / flops_per_token)


def tensor_parallel_bytes(
    num_tokens: int, hidden_size: int, num_ranks: int, element_bytes: int
) -> dict[str, int]:
    """Bytes that a rank sends for one layer, attention and MLP, forward and backward.

    With ``u = num_tokens * hidden_size * element_bytes``: four all-reduces of u, or as many gathers
    and scatters in their halves, or two gathers more where only shards are kept:
    ``(8, 8, 10) (t - 1) / t u``.

    Args:
        num_tokens: Tokens S of a pass, a multiple of the ranks.
        hidden_size: Numbers h of a token between blocks.
        num_ranks: Ranks t that share the layer.
        element_bytes: Of a number that travels.

    Returns:
        Bytes by way: "tensor", "sequence" and "shards_kept".
    """
    sent = num_tokens * hidden_size * element_bytes * (num_ranks - 1) // num_ranks
    return {"tensor": 8 * sent, "sequence": 8 * sent, "shards_kept": 10 * sent}
