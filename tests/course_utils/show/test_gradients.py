"""The picture of gradients says which are too small for fp16."""

import pytest
import torch

from course_utils.show import gradient_exponents

# fp16: normal from 2^-14, then fewer bits down to 2^-24; the tie at 2^-25 rounds to zero.
NUMBERS = [1.0, -(2.0**-14), 2.0**-15, -(2.0**-24), 1.5 * 2.0**-25, 2.0**-25, 2.0**-30, 0.0]


def test_shares_are_those_of_fp16_without_exact_zeros():
    picture = gradient_exponents({"some": torch.tensor([*NUMBERS[:-1], 2.0**-40])})
    assert picture.caption == (
        "Gradients of some: 37.5% become zero in fp16, 37.5% keep fewer bits."
    )


def test_a_small_share_has_more_digits():
    numbers = torch.ones(10_000)
    numbers[0] = 2.0**-30
    assert "0.01% become zero" in gradient_exponents({"some": numbers}).caption


def test_what_is_called_zero_is_zero_in_fp16():
    numbers = torch.tensor(NUMBERS)
    lost = ((numbers.half() == 0) & (numbers != 0)).sum() / (numbers != 0).sum()
    assert f"{lost:.1%} become zero" in gradient_exponents({"some": numbers}).caption


def test_a_step_for_each_power_of_two():
    picture = gradient_exponents({"some": torch.tensor([1.0, 1.9, 4.0]), "one": torch.ones(2)})
    some, one, *_ = picture.figure.axes[0].lines
    assert list(some.get_xdata()) == [0, 1, 2, 3]
    assert list(some.get_ydata()) == pytest.approx([2 / 3, 0, 1 / 3, 0])
    assert list(one.get_ydata()) == [1, 0]
