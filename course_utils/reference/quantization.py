"""What becomes of numbers in 8 or 16 bits? A scale for each row of integers; rounding by chance.

    >>> quantised(torch.tensor([[254.0, -3.0]]))
    (tensor([[127,  -2]], dtype=torch.int8), tensor([[2.]]))

Sources: Jacob et al. 2018, Quantization and Training of Neural Networks, section 2.1; Gupta et al.
2015, Deep Learning with Limited Numerical Precision, section 3.
"""

import torch
from torch import Tensor

LARGEST_INT8 = 127
BITS_CUT = 16  # of fp32, to make it bf16


def quantised(x: Tensor) -> tuple[Tensor, Tensor]:
    """Integers in int8 and one fp32 scale for each row; x is nearly their product.

    The largest size of a row becomes 127. A row of zeros has the scale 1.
    """
    scales = x.abs().amax(dim=-1, keepdim=True) / LARGEST_INT8
    scales = scales + (scales == 0)
    return torch.round(x / scales).to(torch.int8), scales


def rounded_by_chance(x: Tensor, random: Tensor) -> Tensor:
    """x, in fp32, as one of its two neighbours in bf16, such that the mean of all chances is x.

    The bits that are cut off say how likely the farther neighbour is.

    Args:
        x: Numbers in fp32, far from overflow.
        random: Whole numbers from 0 to 65,535 in int32, of the same shape.
    """
    bits: Tensor = (x.view(torch.int32) + random) & -(2**BITS_CUT)
    return bits.view(torch.float32).to(torch.bfloat16)
