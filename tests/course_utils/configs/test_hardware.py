"""Peaks are dense; sparse ones come from a method of their own."""

import pytest

from course_utils.configs import DEVICES, device


@pytest.mark.parametrize(
    ("name", "clock_mhz", "fma_per_clock", "cores"),
    [("A100-80", 1410, 256, 432), ("H100-SXM", 1830, 512, 528)],
)
def test_bf16_peak_follows_from_clock_and_tensor_cores(name, clock_mhz, fma_per_clock, cores):
    """Boost clock * FMAs per clock * 2 * tensor cores; the data sheet rounds it."""
    derived = clock_mhz * 10**6 * fma_per_clock * 2 * cores
    assert device(name).dense_flops_per_second("bf16") == pytest.approx(derived, rel=1e-3)


def test_the_slides_h100_rates_are_sparse():
    assert device("H100-SXM").sparse_flops_per_second("bf16") // 10**12 == 1978
    assert device("H100-SXM").sparse_flops_per_second("tf32") // 10**12 == 989


@pytest.mark.parametrize("name", DEVICES)
def test_every_device_has_a_source_and_rates_that_grow_with_fewer_bits(name):
    each = device(name)
    assert each.source
    assert each.memory_bytes >= 40 * 10**9
    peaks = [each.dense_flops_per_second(precision) for precision in ("tf32", "bf16", "int8")]
    assert peaks == sorted(peaks)


def test_unknown_names_are_rejected():
    with pytest.raises(ValueError, match=r"no device 'H100'; near it: .*H100-SXM"):
        device("H100")
    with pytest.raises(ValueError, match="A100-80 has no peak for 'fp8'; it has fp32"):
        device("A100-80").dense_flops_per_second("fp8")
    with pytest.raises(ValueError, match="'fp32' has no sparse rate"):
        device("A100-80").sparse_flops_per_second("fp32")
