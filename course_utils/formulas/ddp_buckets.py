"""Which buckets does PyTorch's DistributedDataParallel send, and how large is each?

A bucket ends with the gradient that brings it to its limit: the first one's is smaller by default,
so that something leaves early. DDP guesses an order at first, and rebuilds its buckets once, in
the order in which gradients really arrived.

    >>> ddp_buckets([48, 96, 64], [2, 1, 0], 40, 100, False)
    ([208], [64, 144])

Conventions: one precision and one device; no sparse gradients.

Source: torch 2.13.0, ``compute_bucket_size_limits`` and ``_ddp_init_helper`` in
``nn/parallel/distributed.py``, ``should_rebuild_buckets`` in ``c10d/reducer.hpp``.
"""

from collections.abc import Iterable


def ddp_buckets(
    parameter_bytes: list[int],
    arrival: list[int],
    first_limit_bytes: int,
    limit_bytes: int,
    finds_unused: bool,
) -> tuple[list[int], list[int]]:
    """Bytes of the buckets in the first step and in all later ones, in the order of sending.

    Args:
        parameter_bytes: Of each parameter, in the order of definition.
        arrival: Places of the parameters, in the order in which gradients arrive in a backward
            pass.
        first_limit_bytes: Ends the first bucket that is filled.
        limit_bytes: Ends each other one.
        finds_unused: Whether DDP looks for unused parameters, and so never rebuilds its buckets.
    """
    if finds_unused:
        guessed = _bucket_bytes(parameter_bytes, first_limit_bytes, limit_bytes)
        return guessed[::-1], guessed[::-1]
    arrived = (parameter_bytes[place] for place in arrival)
    return [sum(parameter_bytes)], _bucket_bytes(arrived, first_limit_bytes, limit_bytes)


def _bucket_bytes(sizes: Iterable[int], first_limit_bytes: int, limit_bytes: int) -> list[int]:
    """Bytes of buckets that are filled one after the other."""
    full: list[int] = []
    open_bytes = 0
    for size in sizes:
        open_bytes += size
        if open_bytes >= (limit_bytes if full else first_limit_bytes):
            full.append(open_bytes)
            open_bytes = 0
    return [*full, open_bytes] if open_bytes else full
