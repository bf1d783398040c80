"""Achieved rates count the right work; here on a CPU."""

import pytest
import torch

from course_utils.instruments import Timing
from tests.gpu import rates
from tests.gpu.rates import copy_bytes_per_second, matmul_flops_per_second


def test_rates_are_positive():
    assert matmul_flops_per_second(8, 16, 24, device="cpu") > 0
    assert matmul_flops_per_second(8, 16, 24, dtype=torch.bfloat16, device="cpu") > 0
    assert copy_bytes_per_second(2**16, device="cpu") > 0


def test_rates_count_two_operations_and_two_passes(monkeypatch):
    """At two seconds for the fastest run: 2 * 8 * 16 * 24 / 2 FLOP/s, and 2 * 100 / 2 bytes/s."""
    timing = Timing(seconds=(4.0, 2.0), device="CPU")
    monkeypatch.setattr(rates, "time_call", lambda *_, **__: timing)
    assert matmul_flops_per_second(8, 16, 24, device="cpu") == 8 * 16 * 24
    assert copy_bytes_per_second(100, device="cpu") == 100


def test_sizes_that_make_no_sense_are_rejected():
    with pytest.raises(ValueError, match="inner must be above zero, got 0"):
        matmul_flops_per_second(1, 0, 1)
    with pytest.raises(ValueError, match="num_bytes must be above zero, got 0"):
        copy_bytes_per_second(0)


def test_a_missing_gpu_is_reported(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for call in (
        lambda: matmul_flops_per_second(1, 1, 1, device="cuda"),
        lambda: copy_bytes_per_second(1, device="cuda"),
    ):
        with pytest.raises(ValueError, match="there is no GPU here: leave the device out"):
            call()
