"""Which memory is meant, and what does training keep in it?

Conventions: a tensor belongs to one category; a parameter that autograd also keeps counts as a
parameter. The allocator's rounding is left out.

    >>> four_memories({"parameters": 100, "saved_for_backward": 40}, 10, 500)["driver_bytes"]
    650
    >>> sum(state_bytes(8 * 10**9, precision("bf16")).values())
    128000000000
"""

from collections.abc import Mapping

from course_utils.configs import Precision, precision


def four_memories(
    live_bytes: Mapping[str, int], cached_bytes: int, outside_bytes: int
) -> dict[str, int]:
    """The four memories of a training process on a GPU, in bytes.

    ``allocated = sum of live``, ``reserved = allocated + cached``, ``driver = reserved + outside``.

    Args:
        live_bytes: Bytes of live tensors by category, among them ``"saved_for_backward"``.
        cached_bytes: Free blocks that the caching allocator keeps for later.
        outside_bytes: What the process uses outside PyTorch's allocator: the CUDA context,
            kernels, communication buffers.

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


def state_bytes(num_params: int, precision: Precision) -> dict[str, int]:
    """Bytes that training with Adam keeps from step to step, whatever the batch: at least 16 N.

    Per parameter, in fp32 ``4 + 4 + 8 = 16``; in bf16 with fp32 master weights
    ``2 + 2 + 4 + 8 = 16``, or 18 with gradients in fp32, or 20 with gradients in both.

    Args:
        num_params: Parameters N, embeddings included.
        precision: Bytes of one number of each kind.

    Returns:
        ``weights``, ``gradients``, ``master_weights`` (zero in fp32) and ``moments``; the last two
        are the optimizer's.

    Source:
        Lecture E (E12), lecture S (S11); Rajbhandari et al. 2020, section 3.1.
    """
    return {
        "weights": precision.weight_bytes * num_params,
        "gradients": precision.gradient_bytes * num_params,
        "master_weights": precision.master_weight_bytes * num_params,
        "moments": precision.moment_bytes * num_params,
    }


def state_bytes_of_recipe(num_params: int, recipe: str) -> dict[str, int]:
    """Bytes that training with Adam keeps, where all that the optimizer holds is one part.

    Args:
        num_params: Parameters N, embeddings included.
        recipe: Name of a precision.

    Returns:
        ``weights``, ``gradients`` and ``optimizer``.
    """
    parts = state_bytes(num_params, precision(recipe))
    return {
        "weights": parts["weights"],
        "gradients": parts["gradients"],
        "optimizer": parts["master_weights"] + parts["moments"],
    }
