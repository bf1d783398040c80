"""What rounding explains, in numbers: https://doi.org/10.1137/1.9780898718027, section 4.2."""

import math
import random

import pytest
import torch

from autograder.checking.precision import EPSILON, PROMISED, is_same_number, tolerance


@pytest.mark.parametrize("name", EPSILON)
def test_spacings_are_those_of_pytorch(name):
    assert torch.finfo(getattr(torch, name)).eps == EPSILON[name]


def test_the_tolerance_keeps_the_promise_of_nine_digits():
    assert PROMISED / 10 < tolerance() < PROMISED


def test_more_terms_and_fewer_bits_allow_more():
    assert tolerance(num_terms=20) == 2 * tolerance(num_terms=10)
    assert tolerance("float32", 2, 1) == 2**29 * tolerance("float64", 2, 1)


def test_a_sum_of_which_no_digit_is_left_is_refused():
    with pytest.raises(ValueError, match=r"256 terms in float32 that cancel 4096 times"):
        tolerance("float32")


@pytest.mark.parametrize("seed", range(50))
def test_orders_of_a_sum_lie_within_the_tolerance(seed):
    rng = random.Random(seed)
    terms = [rng.uniform(0, 1) for _ in range(256)]
    other = rng.sample(terms, len(terms))
    assert is_same_number(sum(terms), sum(other), tolerance(cancelled=1))


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        (2**53, 2**53 + 1, False),
        (10**400, 10**400, True),
        (10**400, 1.5, False),
        (1.0, 1.0 + 2**-40, True),
        (1.0, 1.0 + 2**-20, False),
        (0.0, 1e-300, False),
        (math.nan, math.nan, True),
        (math.nan, 1.0, False),
        (math.inf, math.inf, True),
        (math.inf, 1e308, False),
    ],
)
def test_numbers(one, other, is_same):
    assert is_same_number(one, other) == is_same_number(other, one) == is_same
