"""FLOPs, with the derivation above each expected number."""

import pytest
import torch

from course_utils.configs import preset
from course_utils.formulas.flops import forward_flops, matmul_flops
from course_utils.instruments import count_flops

# A is 2 x 3, B is 3 x 5: 10 entries of 3 multiplications and 3 additions are 60. Backward:
# dA = dY B^T has 6 entries of 5 + 5, dB = A^T dY has 15 entries of 2 + 2; 60 + 60 = 120.
LADDER = [
    ((2, 3, 5), 60, 120),
    ((1, 1, 1), 2, 4),
    ((7, 1, 11), 154, 308),
    ((4096, 4096, 14336), 481_036_337_152, 962_072_674_304),
]


@pytest.mark.parametrize(("sizes", "forward", "backward"), LADDER, ids=str)
def test_matmul_flops_by_hand(sizes, forward, backward):
    assert matmul_flops(*sizes) == {"forward_flops": forward, "backward_flops": backward}


@pytest.mark.parametrize("sizes", [(2, 3, 5), (1, 7, 13), (17, 1, 3), (64, 64, 64)], ids=str)
def test_matmul_flops_are_those_of_a_linear_layer(sizes):
    """The products that a layer of torch runs, with bias, on real tensors."""
    rows, inner, columns = sizes
    layer = torch.nn.Linear(inner, columns)
    tokens = torch.randn(rows, inner, requires_grad=True)
    assert count_flops(lambda: layer(tokens))._asdict() == matmul_flops(rows, inner, columns)


@pytest.mark.parametrize("sizes", [(2, 3, 5), (1, 7, 13), (17, 1, 3)], ids=str)
def test_matmul_flops_are_those_of_three_loops(sizes):
    """An independent oracle: count every multiplication and addition one by one."""
    rows, inner, columns = sizes
    operations = sum(2 for _ in range(rows) for _ in range(columns) for _ in range(inner))
    assert matmul_flops(*sizes)["forward_flops"] == operations


@pytest.mark.parametrize(
    "call",
    [
        lambda: matmul_flops(-1, 2, 3),
        lambda: matmul_flops(1, 0, 3),
        lambda: forward_flops(preset("Llama-3.2-1B"), 1, -5),
        lambda: forward_flops(preset("Llama-3.2-1B"), 0, 5),
    ],
)
def test_sizes_that_make_no_sense_are_rejected(call):
    with pytest.raises(ValueError, match="must be above zero, got"):
        call()
