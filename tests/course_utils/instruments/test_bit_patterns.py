"""All numbers of a dtype, in the order of its bit patterns."""

import math

import pytest
import torch

from course_utils.instruments import numbers_of


def test_patterns_are_in_the_order_of_integers():
    """5 + 2 bits: 0, then a quarter, a half, three quarters of 2^-14; 0 01111 00 is 1."""
    numbers = numbers_of(torch.float8_e5m2)
    assert numbers[:4] == [0, 0.25 * 2**-14, 0.5 * 2**-14, 0.75 * 2**-14]
    assert numbers[0b00111100] == 1
    assert numbers[0b01111100] == math.inf
    assert numbers[0b10111100] == -1


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float8_e4m3fn])
def test_each_number_has_one_pattern(dtype):
    finite = [each for each in numbers_of(dtype) if math.isfinite(each)]
    assert len(set(finite)) == len(finite) - 1  # zero has two
    assert torch.tensor(finite, dtype=torch.float64).to(dtype).double().tolist() == finite


def test_four_bytes_are_rejected():
    with pytest.raises(ValueError, match="one or two bytes"):
        numbers_of(torch.float32)
