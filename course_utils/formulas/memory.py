"""Which memory is meant: what autograd saves, what is allocated, reserved, or seen by the driver?

Conventions: a tensor belongs to one category; a parameter that autograd also keeps counts as a
parameter. That the allocator rounds blocks up is left out.

    >>> four_memories({"parameters": 100, "saved_for_backward": 40}, 10, 500)["driver_bytes"]
    650
"""

from collections.abc import Mapping


def four_memories(
    live_bytes: Mapping[str, int], cached_bytes: int, outside_bytes: int
) -> dict[str, int]:
    """The four memories of a training process on a GPU, in bytes, each with its own name.

    ``allocated = sum of live``, ``reserved = allocated + cached``, ``driver = reserved + outside``.

    Args:
        live_bytes: Bytes of live tensors by category, among them ``"saved_for_backward"``.
        cached_bytes: Free blocks that the caching allocator keeps for later.
        outside_bytes: What the process takes outside of PyTorch's allocator: the CUDA context,
            kernels, buffers for communication.

    Returns:
        ``saved_bytes``, ``allocated_bytes``, ``reserved_bytes`` and ``driver_bytes``.

    Source:
        PyTorch documentation, CUDA semantics, memory management.
    """
    allocated = sum(live_bytes.values())
    reserved = allocated + cached_bytes
    return {
        "saved_bytes": live_bytes["saved_for_backward"],
        "allocated_bytes": allocated,
        "reserved_bytes": reserved,
        "driver_bytes": reserved + outside_bytes,
    }
