"""Sizes that make no sense are rejected in one sentence; sizes left out are filled in."""

import pytest

from course_utils.configs import Experts, LatentAttention, ModelConfig, gpt, preset

SIZES = {"num_layers": 2, "hidden_size": 64, "num_heads": 8, "ffn_size": 160, "vocab_size": 256}


def test_heads_follow_from_the_width():
    model = ModelConfig(**SIZES)
    assert (model.num_kv_heads, model.head_dim) == (8, 8)
    assert ModelConfig(**SIZES, num_kv_heads=2, head_dim=16).head_dim == 16


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"num_layers": 0}, ValueError, "num_layers must be above zero, got 0"),
        ({"ffn_size": -3}, ValueError, "ffn_size must be above zero, got -3"),
        ({"vocab_size": 2.5}, TypeError, "vocab_size must be a whole number, got 2.5"),
        ({"num_heads": 7}, ValueError, "num_heads = 7 must divide hidden_size = 64"),
        ({"num_heads": 7}, ValueError, "hidden_size could be 63 or 70"),
        ({"num_kv_heads": 3}, ValueError, "num_kv_heads = 3 must divide num_heads = 8"),
        ({"num_kv_heads": -1}, ValueError, "num_kv_heads must be above zero"),
    ],
)
def test_sizes_that_make_no_sense_are_rejected(change, error, words):
    with pytest.raises(error, match=words):
        ModelConfig(**SIZES | change)


def test_parts_that_make_no_sense_are_rejected():
    with pytest.raises(ValueError, match="experts_per_token = 9 must not exceed num_experts = 8"):
        Experts(num_experts=8, experts_per_token=9, expert_ffn_size=3)
    with pytest.raises(ValueError, match="LatentAttention: kv_rank must be above zero"):
        LatentAttention(kv_rank=0, q_rank=1, nope_head_dim=1, rope_head_dim=2, value_head_dim=1)


def test_unknown_presets_are_rejected_with_similar_names():
    with pytest.raises(ValueError, match="no preset 'Llama3-8B'; near it: Llama-3-8B"):
        preset("Llama3-8B")


def test_a_models_repr_is_short_and_evaluates_to_it():
    model = ModelConfig(**SIZES, num_kv_heads=2)
    assert repr(model).endswith("ffn_size=160, vocab_size=256, num_kv_heads=2)")
    assert eval(repr(model)) == model
    assert eval(repr(preset("DeepSeek-V3"))) == preset("DeepSeek-V3")


def test_a_gpt_is_one_layer_unless_told_otherwise():
    layer = gpt(64, 8)
    assert (layer.num_layers, layer.ffn_size) == (1, 256)
    assert (layer.is_gated, layer.has_biases) == (False, True)
    assert gpt(64, 8, num_layers=3, num_positions=0).num_positions == 0
