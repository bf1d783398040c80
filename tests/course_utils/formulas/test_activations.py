"""Saved bytes: each formula equals what autograd keeps, exactly, on random models."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from course_utils.configs import Kernels, ModelConfig, RunConfig, gpt, precision, preset
from course_utils.formulas.activations import (
    attention_saved_bytes,
    autocast_saved_bytes,
    feed_forward_saved_bytes,
    gpt_layer_bytes,
    kept_by_operation,
    layer_saved_bytes,
    llama_layer_bytes,
    loss_saved_bytes,
    model_saved_bytes,
    norm_saved_bytes,
    sequence_bytes,
)
from course_utils.instruments import SavedBytes, count_saved_bytes, fake_tensors
from course_utils.reference import Block, Transformer, token_loss
from course_utils.reference.dtypes import FLOATS
from tests.random_models import KERNELS, ORDINARY_KINDS, random_model, random_run

CASES = [(k, n, seed) for k in ORDINARY_KINDS for n in KERNELS for seed in range(2)]


def dtype_of(run: RunConfig) -> torch.dtype:
    return FLOATS[run.precision.activation_bytes]


def counted_layers(model: ModelConfig, run: RunConfig, device: str = "cpu") -> SavedBytes:
    layers = range(model.num_layers)
    blocks = nn.Sequential(*(Block(model, n, device, dtype_of(run), run.kernels) for n in layers))
    shape = (run.micro_batch_size, run.seq_len, model.hidden_size)
    x = torch.ones(shape, dtype=dtype_of(run), device=device)
    return count_saved_bytes(lambda: blocks(x), blocks)


def counted_model(model: ModelConfig, run: RunConfig) -> SavedBytes:
    built = Transformer(model, dtype=dtype_of(run), kernels=run.kernels)
    ids, targets = torch.zeros(2, run.micro_batch_size, run.seq_len, dtype=torch.long)
    return count_saved_bytes(
        lambda: token_loss(built(ids.clone()), targets.clone(), run.is_loss_fp32), built
    )


@pytest.mark.parametrize(("kind", "kernels", "seed"), CASES)
def test_layers_keep_what_the_formula_says(kind, kernels, seed):
    model, run = random_model(kind, seed), random_run(kernels, seed)
    expected = model.num_layers * sum(layer_saved_bytes(model, run).values())
    assert counted_layers(model, run).total_bytes == expected
    with fake_tensors():
        assert counted_layers(model, run).total_bytes == expected


@pytest.mark.parametrize(("kind", "kernels", "seed"), CASES)
def test_models_keep_what_the_formula_says(kind, kernels, seed):
    model, run = random_model(kind, seed), random_run(kernels, seed)
    expected = sum(model_saved_bytes(model, run).values())
    with fake_tensors():
        assert counted_model(model, run).total_bytes == expected


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("kind", ORDINARY_KINDS)
def test_each_part_is_that_of_its_module(kind, kernels):
    """If one part were too large and another too small, the sum could still be right."""
    model, run = random_model(kind, 8), random_run(kernels, 9)
    block = Block(model, 0, dtype=dtype_of(run), kernels=run.kernels)
    x = torch.ones(run.micro_batch_size, run.seq_len, model.hidden_size, dtype=dtype_of(run))
    mask = x.numel() if run.kernels.dropout_fraction else 0  # kept by the block, not the module
    for module, sizes, masks in (
        (block.ffn_norm, norm_saved_bytes(model, run), 0),
        (block.attention, attention_saved_bytes(model, run), mask),
        (block.ffn, feed_forward_saved_bytes(model, run), mask),
    ):
        saved = count_saved_bytes(lambda module=module: module(x), block)
        assert saved.total_bytes == sum(sizes.values()) - masks


KORTHIKANTI = Kernels(is_attention_fused=False, dropout_fraction=0.1)


# 34 s b h + 5 a s**2 b = 34 * 16,384 + 5 * 4 * 64**2 * 2 = 557,056 + 163,840 = 720,896. Each of two
# norms keeps two statistics per token, of 2 bytes on the CPU (8 s b) and 4 on a GPU (16 s b); the
# meta device behaves like a GPU.
@pytest.mark.parametrize(
    ("device", "statistic_bytes", "expected"),
    [("cpu", 2, 720_896 + 8 * 64 * 2), ("meta", 4, 720_896 + 16 * 64 * 2)],
)
def test_a_gpt_layer_keeps_what_korthikanti_says_and_statistics(device, statistic_bytes, expected):
    run = RunConfig(
        micro_batch_size=2,
        seq_len=64,
        kernels=KORTHIKANTI,
        layer_norm_statistic_bytes=statistic_bytes,
    )
    assert sum(layer_saved_bytes(gpt(128, 4), run).values()) == expected
    assert counted_layers(gpt(128, 4), run, device).total_bytes == expected


def test_a_large_gpt_layer():
    # 34 * 8,192 * 4,096 + 5 * 32 * 8,192**2 = 11,878,268,928, and 16 * 8,192 of statistics
    run = RunConfig(seq_len=8192, kernels=KORTHIKANTI)
    assert sum(layer_saved_bytes(gpt(4096, 32), run).values()) == 11_878_268_928 + 131_072
    assert counted_layers(gpt(4096, 32), run, "meta").total_bytes == 11_878_400_000


def test_a_gpt_layer_term_by_term():
    """In units of s b h: 2 bytes for a tensor of activations, 1 for a mask; a s**2 b is 2 s b h."""
    run = RunConfig(micro_batch_size=2, seq_len=64, kernels=KORTHIKANTI)
    sizes = layer_saved_bytes(gpt(128, 4), run)
    units = {name: size / (64 * 2 * 128) for name, size in sizes.items() if "stat" not in name}
    assert units == {
        "attention_norm_input": 2,
        "attention_projections_input": 2,
        "attention_queries": 2,
        "attention_keys": 2,
        "attention_softmax_output": 4,
        "attention_softmax_dropout_mask": 2,
        "attention_softmax_dropout_output": 4,
        "attention_values": 2,
        "attention_output_input": 2,
        "attention_dropout_mask": 1,
        "ffn_norm_input": 2,
        "ffn_up_input": 2,
        "ffn_gelu_input": 8,
        "ffn_down_input": 8,
        "ffn_dropout_mask": 1,
    }


# e (6 s b h + 2 s b h a_kv / a + 4 s b f) + 4 a s b + 8 s b for s b = 128, h = 128, a_kv / a = 1/2,
# f = 160: e (98,304 + 16,384 + 81,920) + 2,048 + 1,024; fused, the gate saves e s b f.
@pytest.mark.parametrize("num_layers", [1, 3])
@pytest.mark.parametrize(
    ("name", "is_gate_fused", "expected"),
    [
        ("bf16", False, 2 * 196_608 + 3072),
        ("fp32", False, 4 * 196_608 + 3072),
        ("bf16", True, 2 * (196_608 - 20_480) + 3072),
    ],
)
def test_a_llama_layer(num_layers, name, is_gate_fused, expected):
    model = ModelConfig(
        num_layers=num_layers,
        hidden_size=128,
        num_heads=4,
        num_kv_heads=2,
        ffn_size=160,
        vocab_size=64,
    )
    run = RunConfig(
        micro_batch_size=2,
        seq_len=64,
        precision=precision(name),
        kernels=Kernels(is_gate_fused=is_gate_fused),
    )
    assert sum(layer_saved_bytes(model, run).values()) == expected
    assert counted_layers(model, run).total_bytes == num_layers * expected


def test_llama_3_8b_at_8192():
    model, run = preset("Llama-3-8B"), RunConfig(seq_len=8192)
    assert model_saved_bytes(model, run)["layers"] == 44_059_066_368
    with fake_tensors():
        assert counted_layers(model, run).total_bytes == 44_059_066_368


@pytest.mark.parametrize("is_loss_fp32", [False, True])
def test_the_loss_keeps_one_number_per_token_and_vocabulary_entry(is_loss_fp32):
    # 3 * 5 tokens of 7 entries: 105 numbers of 2 or 4 bytes, 15 targets of 8 bytes, one weight
    model = replace(gpt(8, 2), vocab_size=7)
    run = RunConfig(micro_batch_size=3, seq_len=5, is_loss_fp32=is_loss_fp32)
    element_bytes = 4 if is_loss_fp32 else 2
    sizes = loss_saved_bytes(model, run)
    assert sizes == {"log_softmax": 105 * element_bytes, "targets": 120, "weight": element_bytes}
    logits = torch.zeros(3, 5, 7, dtype=torch.bfloat16, requires_grad=True)
    targets = torch.zeros(3, 5, dtype=torch.long)
    saved = count_saved_bytes(lambda: token_loss(logits, targets, is_loss_fp32))
    assert saved.total_bytes == sum(sizes.values())


@pytest.mark.parametrize("kind", ["latent", "experts"])
def test_other_layers_are_rejected(kind):
    name = {"latent": "latent_attention", "experts": "experts"}[kind]
    with pytest.raises(ValueError, match=f"give a model without {name}"):
        model_saved_bytes(random_model(kind, 0), RunConfig(seq_len=4))


def test_bytes_by_part_are_those_of_the_whole_layer():
    run = RunConfig(micro_batch_size=2, seq_len=64, kernels=KORTHIKANTI)
    parts = gpt_layer_bytes(2, 64, 128, 4)
    assert sum(parts.values()) == sum(layer_saved_bytes(gpt(128, 4), run).values())
    assert parts["scores"] == 5 * 2 * 4 * 64**2
    llama, run = preset("Llama-3-8B"), RunConfig(micro_batch_size=2, seq_len=64)
    whole = sum(layer_saved_bytes(llama, run).values())
    assert sum(llama_layer_bytes(llama, 2, 64, 2).values()) == whole


def test_one_more_sequence_keeps_what_two_keep_more_than_one():
    llama, runs = (
        preset("Llama-3-8B"),
        (RunConfig(micro_batch_size=b, seq_len=64, is_loss_fp32=True) for b in (1, 2)),
    )
    one, two = (sum(model_saved_bytes(llama, run).values()) for run in runs)
    layer = sum(llama_layer_bytes(llama, 1, 64, 2).values())
    assert sequence_bytes(llama, 64, layer) == two - one


def test_single_operations_keep_inputs_results_or_masks():
    kept = kept_by_operation(1, 3, 4, 2)
    assert list(kept.values()) == [24, 36, 24, 36, 12, 0]


@pytest.mark.parametrize("num_calls", [1, 3])
@pytest.mark.parametrize("wants_input_grad", [False, True])
def test_autocast_keeps_what_the_formula_says(num_calls, wants_input_grad):
    block = nn.Sequential(nn.Linear(4, 7), nn.GELU(), nn.Linear(7, 4))
    x = torch.ones(3, 4, requires_grad=wants_input_grad)

    def run():
        y = x
        with torch.autocast("cpu", torch.bfloat16):
            for _ in range(num_calls):
                y = block(y)
        return y

    expected = autocast_saved_bytes(3, 4, 7, num_calls, wants_input_grad)
    assert count_saved_bytes(run, block).total_bytes == sum(expected.values())
