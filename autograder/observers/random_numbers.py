"""Random tensors of cases: the same for the same seed, and nearly or wholly so on every machine."""

from collections.abc import Sequence

import torch
from torch import Tensor

LARGEST = 2  # of the whole numbers that are drawn


def normal_numbers(
    seed: int, *shapes: Sequence[int] | int, dtype: torch.dtype = torch.float64
) -> list[Tensor]:
    """Normally distributed tensors; their last digits depend on the machine's logarithm."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator, dtype=dtype) for shape in shapes]


def uniform_numbers(shape: Sequence[int], generator: torch.Generator) -> Tensor:
    """Numbers between -1 and 1 in float64, the same on every machine."""
    return 2 * torch.rand(shape, generator=generator, dtype=torch.float64) - 1


def whole_numbers(shape: Sequence[int], generator: torch.Generator) -> Tensor:
    """Whole numbers from -2 to 2 without 0: their products and sums are exact in any order."""
    numbers = torch.randint(2 * LARGEST, tuple(shape), generator=generator)
    return torch.where(numbers < LARGEST, numbers - LARGEST, numbers - LARGEST + 1).double()
