"""How many bytes does a tensor take?

Convention: the elements of a dense tensor only, without an allocator's rounding.

    >>> tensor_bytes((4, 2048, 1024), element_bytes=2)
    16777216
"""

from math import prod


def tensor_bytes(shape: tuple[int, ...], element_bytes: int) -> int:
    """Bytes of a dense tensor: the product of its sizes times the bytes of one element.

    Args:
        shape: Sizes of the axes; an empty shape is a single number.
        element_bytes: Bytes of one element: 4 in fp32, 2 in bf16, 1 for a boolean mask.

    Returns:
        A whole number of bytes.
    """
    return prod(shape) * element_bytes
