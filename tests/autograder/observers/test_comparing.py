"""Tensors of two machines: the same but for rounding, and never the same by chance."""

import math

import pytest
import torch

from autograder.checking.result_form import WrongForm
from autograder.observers.comparing import is_same, num_different, same_numbers
from autograder.observers.random_numbers import whole_numbers

RIGHT = torch.tensor([1000.0, 1.0, 1e-3, 0.0], dtype=torch.float64)


def changed(position, value):
    ours = RIGHT.clone()
    ours[position] = value
    return ours


@pytest.mark.parametrize(
    ("ours", "same"),
    [
        (RIGHT.clone(), [True, True, True, True]),
        (changed(0, 1000 + 1e-8), [True, True, True, True]),
        (changed(0, 1000 + 1e-5), [False, True, True, True]),
        (changed(2, 0.0), [True, True, False, True]),
        (changed(3, 1e-8), [True, True, True, False]),
        (changed(1, math.nan), [True, False, True, True]),
        (changed(1, math.inf), [True, False, True, True]),
        (RIGHT[:2], [False, False, False, False]),
    ],
)
def test_each_number(ours, same):
    assert same_numbers(ours, RIGHT).tolist() == same


def test_zero_never_passes_for_small_numbers():
    assert not is_same(torch.zeros(3, dtype=torch.float64), torch.full((3,), 1e-12).double())
    assert not is_same(None, torch.full((3,), 1e-12))


def test_infinity_is_itself():
    right = torch.tensor([math.inf, -math.inf, 1.0])
    assert same_numbers(right.clone(), right).all()
    assert same_numbers(-right, right).tolist() == [False, False, False]


def test_fewer_bits_are_seen():
    right = torch.linspace(0.1, 1, 7, dtype=torch.float64)
    assert not is_same(right.float(), right)
    assert is_same(right.float(), right.float())


def test_a_form_that_cannot_be_compared_is_named():
    with pytest.raises(WrongForm, match="complex64"):
        is_same(torch.zeros(3, dtype=torch.complex64), RIGHT)
    with pytest.raises(WrongForm, match="tensors: 2"):
        num_different([RIGHT], [RIGHT, RIGHT])


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_products_of_whole_numbers_are_exact_in_any_order(dtype):
    generator = torch.Generator().manual_seed(0)
    a, b = (whole_numbers((50, 50), generator).to(dtype) for _ in range(2))
    assert {*a.flatten().tolist()} == {-2, -1, 1, 2}
    assert torch.equal(a.double() @ b.double(), (a.flip(1) @ b.flip(0)).double())
