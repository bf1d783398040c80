"""Numbers from bits: by hand, compared with torch's dtypes, and by adding one by one."""

import itertools
import math

import pytest
import torch

from autograder.exercises.u07 import measured_stop
from course_utils.configs import FORMATS
from course_utils.formulas.number_formats import (
    bits_of,
    largest,
    neighbours,
    rounded,
    smallest,
    smallest_normal,
    stops_at,
    value_of,
)

# 3 bits of exponent, bias 3, and 2 of mantissa.
BY_HAND = [
    ("000000", 0.0),
    ("000001", 2.0**-2 / 4),  # subnormal: 1 - bias = -2
    ("000011", 2.0**-2 * 3 / 4),
    ("000100", 2.0**-2),  # the smallest normal number, one step further
    ("001100", 1.0),
    ("101101", -1.25),
    ("011011", 2.0**3 * 1.75),
    ("011100", math.inf),
    ("111100", -math.inf),
]


@pytest.mark.parametrize(("bits", "value"), BY_HAND)
def test_values_by_hand_and_back(bits, value):
    assert value_of(bits, 3) == value
    assert bits_of(value, 3, 2) == bits


def test_negative_zero_and_nan():
    assert math.copysign(1.0, value_of("100000", 3)) == -1
    assert math.isnan(value_of("011101", 3))


@pytest.mark.parametrize("bits", ["", "01", "01a1", "0001"])
def test_strings_that_are_no_pattern_are_rejected(bits):
    with pytest.raises(ValueError, match="wanted zeros and ones"):
        value_of(bits, 3)


@pytest.mark.parametrize("name", ["fp32", "bf16", "fp16", "fp8-e5m2", "fp8-e4m3"])
def test_ends_of_the_range_are_those_of_torch(name):
    types = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
    dtype = types.get(name) or getattr(torch, name.replace("fp8-", "float8_").replace("m3", "m3fn"))
    info = torch.finfo(dtype)
    assert largest(FORMATS[name]) == info.max
    assert smallest_normal(FORMATS[name]) == info.smallest_normal
    assert smallest(FORMATS[name]) == info.smallest_normal * info.eps


def test_every_number_of_fp16_rounds_to_itself_and_lies_between_its_neighbours():
    patterns = [format(n, "016b") for n in range(2**15)]
    numbers = [value_of(bits, 5) for bits in patterns if bits[1:6] != "11111"]
    for below, number, above in zip(numbers, numbers[1:], numbers[2:], strict=False):
        assert rounded(number, 5, 10) == number
        assert neighbours(number, 5, 10) == (below, above)
        assert neighbours(-number, 5, 10) == (-above, -below)
    assert neighbours(numbers[-1], 5, 10) == (numbers[-2], math.inf)
    assert neighbours(0.0, 5, 10) == (-numbers[1], numbers[1])


def test_the_middle_is_where_the_nearest_number_changes():
    numbers = [value_of(format(n, "08b"), 5) for n in range(124)]
    for n, (low, high) in enumerate(itertools.pairwise(numbers)):
        middle = (low + high) / 2
        assert rounded(middle, 5, 2) == (high if n % 2 else low)  # the even pattern
        assert rounded(math.nextafter(middle, 0), 5, 2) == low
        assert rounded(math.nextafter(middle, math.inf), 5, 2) == high


@pytest.mark.parametrize("x", [math.nan, math.inf])
def test_only_finite_numbers_are_rounded(x):
    with pytest.raises(ValueError, match="wanted a finite number"):
        rounded(x, 5, 2)


def test_an_int_is_rejected():
    with pytest.raises(TypeError, match=r"wanted a float, got 1; write 1\.0"):
        rounded(1, 5, 2)


# Terms from 1/8 to a little above 1, in 8 + 2 bits; each sum is made by adding.
@pytest.mark.parametrize("quarters", range(4, 36))
def test_sums_stop_where_adding_stops(quarters):
    term = rounded(quarters / 32, 8, 2)
    total, before = term, 0.0
    while total != before:
        before, total = total, rounded(total + term, 8, 2)
    assert total == stops_at(term, 2)
    powers = (2.0**power for power in range(-20, 20))
    assert total == next(p for p in powers if rounded(p + term, 8, 2) == p)


def test_the_fast_measurement_agrees_with_adding():
    # 2**24 is the first whole number whose successor fp32 does not have
    assert measured_stop(1.0, 23) == 2.0**24
    assert measured_stop(3.0, 23) == 2.0**26


@pytest.mark.parametrize("term", [0.0, -1.0, math.inf])
def test_a_term_must_be_above_zero_and_finite(term):
    with pytest.raises(ValueError, match="above zero"):
        stops_at(term, 7)
