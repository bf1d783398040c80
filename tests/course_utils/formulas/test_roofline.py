"""Seconds and bytes by the roofline, against numbers made by hand and other algebra."""

import random
from math import inf

import pytest

from course_utils.configs import device, preset
from course_utils.formulas import roofline
from course_utils.formulas.training_flops import training_flops_per_token

DEVICES = ("A100-80", "H100-SXM", "H200", "B200")
# Counted up, one token at a time, in whole numbers.
FEWEST = {
    (2048, 2048): (180, 416, 259, 409),
    (4096, 14336): (161, 326, 221, 322),
    (8192, 28672): (157, 310, 214, 307),
    (512, 512): (381, inf, 1059, inf),
}


@pytest.mark.parametrize(("sizes", "counts"), FEWEST.items())
def test_fewest_tokens_at_the_ridge(sizes, counts):
    for name, wanted in zip(DEVICES, counts, strict=True):
        hardware = device(name)
        rates = hardware.dense_flops_per_second("bf16"), hardware.bandwidth_bytes_per_second
        assert roofline.fewest_tokens(*sizes, 2, *rates) == wanted


def test_an_operation_waits_for_the_slower_of_two():
    operations = [[2e9, 4e6], [0, 5e8], [3e10, 2e8]]  # 2 ms of compute, 5 and 30 of memory
    assert roofline.roofline_seconds(operations, 1e12, 1e11) == pytest.approx(0.037)
    assert roofline.product_bytes(1, 4096, 14336, 2) == 117_477_376


def test_bytes_of_a_step_of_llama_3_8b():
    sizes = preset("Llama-3-8B"), 16, 1024
    assert roofline.step_bytes(*sizes, "prefill") == {
        "weights": 15_144_067_072,
        "cache_read": 2_147_483_648,
        "cache_written": 2_147_483_648,
    }
    assert roofline.step_bytes(*sizes, "decode") == {
        "weights": 15_009_980_416,
        "cache_read": 2_149_580_800,
        "cache_written": 2_097_152,
    }
    assert roofline.step_bytes(*sizes, "train")["weights"] == 30_153_916_416


@pytest.mark.parametrize("num_sequences", [1, 8, 64, 256])
def test_tokens_per_second_of_decoding_are_those_that_the_memory_allows(num_sequences):
    """7.5 billion numbers of weights, and for each sequence a row and 1,257 + 1 cached tokens."""
    token_bytes = 2 * 2 * 32 * 8 * 128
    num_bytes = 2 * 7_504_924_672 + num_sequences * (2 * 4096 + 1258 * token_bytes)
    llama, a100 = preset("Llama-3-8B"), device("A100-80")
    rate = roofline.decode_tokens_per_second(llama, a100, num_sequences, 1256)
    assert rate == pytest.approx(num_sequences * 2.039e12 / num_bytes)


def test_many_short_sequences_wait_for_compute():
    """7.5 billion multiply-adds a token; attention to 257 tokens adds 2 %."""
    llama, a100 = preset("Llama-3-8B"), device("A100-80")
    rate = roofline.decode_tokens_per_second(llama, a100, 256, 256)
    flops = 2 * (7_504_924_672 - 65 * 4096) + 4 * 32 * 4096 * 257
    assert rate == pytest.approx(312e12 / flops)


def test_what_does_not_fit_decodes_nothing():
    llama, a100 = preset("Llama-3-8B"), device("A100-80")
    rates = [roofline.decode_tokens_per_second(llama, a100, n, 8192) for n in (59, 60)]
    assert rates[0] > 0 == rates[1]


def test_the_products_of_training_have_the_flops_of_training():
    model = preset("Llama-3-8B")
    products = roofline.training_products(model, 512)
    flops = sum(times * 2 * m * k * n for m, k, n, times in products)
    assert flops == 512 * training_flops_per_token(model, 512)


def simulated_epoch(load, step, num_workers, num_batches):
    """Each worker makes its batches one after the other; steps take them in order."""
    free, now = [0] * num_workers, 0
    for i in range(num_batches):
        free[i % num_workers] += load
        now = max(now, free[i % num_workers]) + step
    return now


def test_an_epoch_by_simulation():
    rng = random.Random(0)
    for _ in range(300):
        case = [rng.randint(1, 50), rng.randint(1, 50), rng.randint(1, 6), rng.randint(1, 60)]
        assert roofline.epoch_seconds(*case) == simulated_epoch(*case)
