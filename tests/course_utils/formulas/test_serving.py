"""What it takes to serve a model: golden values, and counted ones."""

from dataclasses import replace

import pytest
import torch

from course_utils.configs import ModelConfig, device, preset
from course_utils.formulas.parameters import parameters
from course_utils.formulas.serving import (
    cache_bytes,
    capacity_losses,
    expected_experts,
    served_bytes,
    served_tokens_per_second,
    speculation,
    weights_read,
)
from course_utils.instruments import count_bytes, fake_tensors
from course_utils.reference import Transformer
from course_utils.reference.cached_block import KVCache, decode_step


@pytest.mark.parametrize(
    ("name", "per_token"),
    [
        ("GPT-3-175B", 2 * 96 * 12288 * 2),
        ("Llama-3-8B", 2 * 32 * 8 * 128 * 2),
        ("Mixtral-8x7B", 2 * 32 * 8 * 128 * 2),
        ("Llama-3-405B", 2 * 126 * 8 * 128 * 2),
        ("DeepSeek-V3", 61 * (512 + 64) * 2),
    ],
)
def test_cache_of_one_token(name, per_token):
    assert cache_bytes(preset(name), 1, 1, 2) == per_token
    assert cache_bytes(preset(name), 3, 50, 2, window=20) == 3 * 20 * per_token
    assert cache_bytes(preset(name), 3, 50, 2, window=80) == 3 * 50 * per_token


def test_a_cache_of_nothing_is_an_error():
    with pytest.raises(ValueError, match="context"):
        cache_bytes(preset("Llama-3-8B"), 1, 0, 2)


@pytest.mark.parametrize(("tokens", "wanted"), [(1, 2), (2, 3.5), (4, 5.46875)])
def test_experts_that_a_batch_reads(tokens, wanted):
    assert expected_experts(8, 2, tokens) == wanted


SMALL = ModelConfig(
    num_layers=2, hidden_size=32, num_heads=4, num_kv_heads=2, ffn_size=56, vocab_size=64
)


def test_weights_and_flops_of_a_step_as_counted():
    """The embedding's rows are read and are no part of what is read whole."""
    with fake_tensors(), torch.no_grad():
        model = Transformer(SMALL, dtype=torch.bfloat16)
        cache = KVCache(model, 3, 20)
        cache.length = 9
        ids = torch.zeros(3, dtype=torch.long)
        moved = count_bytes(lambda: decode_step(model, ids, cache), weights=model.parameters())
    assert moved.of("weights").read_bytes == 2 * (weights_read(SMALL, 3) + 3 * 32)
    products = weights_read(SMALL, 3) - parameters(SMALL)["norms"]
    assert moved.flops == 3 * (2 * products + 4 * 2 * 4 * 8 * 10)


def test_experts_that_nobody_chose_are_not_read():
    mixtral = preset("Mixtral-8x7B")
    expert = 32 * 3 * 4096 * 14336
    everything = sum(parameters(mixtral).values()) - parameters(mixtral)["embedding"]
    assert weights_read(mixtral, 1) == everything - 6 * expert
    assert weights_read(mixtral, 2) == everything - 4.5 * expert


def test_decoding_waits_for_bytes_until_its_batch_is_large():
    chip, model = device("A100-80"), preset("Llama-3-8B")
    one, many = (served_tokens_per_second(model, chip, n, 100) for n in (1, 512))
    assert one < chip.bandwidth_bytes_per_second / (2 * weights_read(model, 1))
    assert 100 * one < many < chip.dense_flops_per_second("bf16") / (2 * weights_read(model, 1))
    assert served_bytes(model, 2, 10) == 2 * 8030261248 + 20 * 131072


def test_a_smaller_cache_serves_more():
    model, chip = preset("Llama-3-8B"), device("H100-SXM")
    heads = (replace(model, num_kv_heads=each) for each in (32, 8, 1))
    rates = [served_tokens_per_second(each, chip, 64, 8192) for each in heads]
    assert rates == sorted(rates)


def test_speculation_of_drafts_that_never_or_always_fit():
    assert speculation(0.0, 0.1, 5) == {"tokens": 1.0, "speedup": 1 / 1.5}
    assert speculation(1.0, 0.0, 5) == {"tokens": 6.0, "speedup": 6.0}
    assert speculation(0.7, 0.05, 4)["tokens"] == pytest.approx(2.7731)


def test_first_choices_come_first():
    choices = [[0, 1], [0, 1], [1, 2]]
    wanted = {"dropped": 3, "lost_tokens": 1, "empty_places": 0}
    assert capacity_losses(choices, 3, 1) == wanted
    assert capacity_losses(choices, 3, 3)["dropped"] == 0
