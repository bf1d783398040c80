"""Which numbers can a torch dtype hold? All its bit patterns, read as numbers.

>>> len(numbers_of(torch.bfloat16))
65536
"""

import torch

INTEGERS = {1: torch.uint8, 2: torch.uint16}


def numbers_of(dtype: torch.dtype) -> list[float]:
    """The number that each bit pattern stands for, in the order of the patterns as integers.

    Args:
        dtype: A dtype of one or two bytes.

    Raises:
        ValueError: If the dtype has more bytes.
    """
    if dtype.itemsize not in INTEGERS:
        raise ValueError(f"numbers_of: wanted a type of one or two bytes, got {dtype}")
    patterns = torch.arange(2 ** (8 * dtype.itemsize)).to(INTEGERS[dtype.itemsize])
    numbers: list[float] = patterns.view(dtype).double().tolist()
    return numbers
