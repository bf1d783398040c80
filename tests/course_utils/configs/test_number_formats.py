"""Widths of number formats, compared with torch's dtypes."""

import pytest
import torch

from course_utils.configs import FORMATS, NumberFormat

STORED = {
    "fp32": torch.float32,
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
    "fp8-e5m2": torch.float8_e5m2,
    "fp8-e4m3": torch.float8_e4m3fn,
}


@pytest.mark.parametrize("name", STORED)
def test_bits_and_step_are_those_of_torch(name):
    assert FORMATS[name].num_bits == 8 * STORED[name].itemsize
    assert 2.0 ** -FORMATS[name].num_mantissa_bits == torch.finfo(STORED[name]).eps


def test_tf32_has_the_range_of_fp32_and_the_step_of_fp16():
    tf32 = FORMATS["tf32"]
    assert tf32.num_exponent_bits == FORMATS["fp32"].num_exponent_bits
    assert tf32.num_mantissa_bits == FORMATS["fp16"].num_mantissa_bits
    assert tf32.num_bits == 19


@pytest.mark.parametrize("widths", [(0, 7), (8, -1)])
def test_widths_must_be_above_zero(widths):
    exponent, mantissa = widths
    with pytest.raises(ValueError, match="must be above zero"):
        NumberFormat(num_exponent_bits=exponent, num_mantissa_bits=mantissa)
