"""Which memory is meant, and what does training keep in it?

Conventions: a tensor belongs to one category; a parameter that autograd also keeps counts as a
parameter. The allocator's rounding is left out.

    >>> sum(state_bytes(8 * 10**9, precision("bf16")).values())
    128000000000
"""

from course_utils.configs import Precision, precision


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
