"""Integers with a scale, and rounding by chance, by hand and over all chances."""

import pytest
import torch

from course_utils.reference.quantization import quantised, rounded_by_chance


def test_the_largest_of_each_row_becomes_127_and_ties_go_to_the_even_integer():
    integers, scales = quantised(torch.tensor([[127.0, 0.5, -2.5], [3.0, -254.0, 0.0]]))
    assert integers.tolist() == [[127, 0, -2], [2, -127, 0]]
    assert scales.tolist() == [[1.0], [2.0]]
    assert integers.dtype == torch.int8


def test_a_row_of_zeros_has_the_scale_one():
    integers, scales = quantised(torch.zeros(1, 3))
    assert (integers.tolist(), scales.tolist()) == ([[0, 0, 0]], [[1.0]])


@pytest.mark.parametrize("x", [1 + 2**-9, -3.1, 0.75, 1e-30])
def test_the_mean_over_all_chances_is_the_number(x):
    numbers = torch.full((2**16,), x)
    rounded = rounded_by_chance(numbers, torch.arange(2**16, dtype=torch.int32))
    assert rounded.double().mean() == numbers[0].double()
    assert rounded.dtype == torch.bfloat16
    assert len(rounded.unique()) == (1 if x == 0.75 else 2)
