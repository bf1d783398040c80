"""FLOPs, with the derivation above each expected number."""

import dataclasses

import pytest
import torch

from course_utils.configs import ModelConfig, preset
from course_utils.formulas.flops import (
    attention_flops,
    crossover_length,
    forward_flops,
    gated_mlp_flops,
    matmul_flops,
    model_flops,
)
from course_utils.instruments import count_flops

# A is 2 x 3, B is 3 x 5: 10 entries of 3 multiplications and 3 additions are 60. Backward:
# dA = dY B^T has 6 entries of 5 + 5, dB = A^T dY has 15 entries of 2 + 2; 60 + 60 = 120.
LADDER = [
    ((2, 3, 5), 60, 120),
    ((1, 1, 1), 2, 4),
    ((7, 1, 11), 154, 308),
    ((4096, 4096, 14336), 481_036_337_152, 962_072_674_304),
]


@pytest.mark.parametrize(("sizes", "forward", "backward"), LADDER, ids=str)
def test_matmul_flops_by_hand(sizes, forward, backward):
    assert matmul_flops(*sizes) == {"forward_flops": forward, "backward_flops": backward}


@pytest.mark.parametrize("sizes", [(2, 3, 5), (1, 7, 13), (17, 1, 3), (64, 64, 64)], ids=str)
def test_matmul_flops_are_those_of_a_linear_layer(sizes):
    """The products that a layer of torch runs, with bias, on real tensors."""
    rows, inner, columns = sizes
    layer = torch.nn.Linear(inner, columns)
    tokens = torch.randn(rows, inner, requires_grad=True)
    assert count_flops(lambda: layer(tokens))._asdict() == matmul_flops(rows, inner, columns)


@pytest.mark.parametrize(
    "call",
    [
        lambda: matmul_flops(-1, 2, 3),
        lambda: matmul_flops(1, 0, 3),
        lambda: forward_flops(preset("Llama-3.2-1B"), 1, -5),
        lambda: forward_flops(preset("Llama-3.2-1B"), 0, 5),
        lambda: attention_flops(1, 3, 2, 0, 4),
        lambda: gated_mlp_flops(0, 2, 3),
        lambda: model_flops(preset("Llama-3.2-1B"), 1, 0),
    ],
)
def test_sizes_that_make_no_sense_are_rejected(call):
    with pytest.raises(ValueError, match="must be above zero, got"):
        call()


SMALL = ModelConfig(num_layers=2, hidden_size=4, num_heads=1, ffn_size=3, vocab_size=5)


def test_attention_of_two_query_heads_by_hand():
    """Width 8, keys and values of width 4: 3 tokens through 8·8 + 8·4 + 8·4 + 8·8 numbers.

    Scores are 2 heads of 3·3 sums of 4 products; 2·3·3 sums of 3 products for each of 4 values.
    """
    assert attention_flops(1, 3, 2, 1, 4) == {"projection_flops": 6 * 192, "core_flops": 144 + 144}


def test_gated_block_and_model_by_hand():
    """Three products of 2·3 numbers; two layers of 4 · 4·4, scores of 2·2 pairs, and 3 · 4·3."""
    assert gated_mlp_flops(1, 2, 3) == 3 * 2 * 6
    assert model_flops(SMALL, 1, 2) == 2 * (256 + 64 + 144) + 80


@pytest.mark.parametrize("name", ["Llama-3.2-1B", "Llama-3-8B", "Llama-3-70B"])
def test_parts_of_a_layer_from_plain_sizes_are_those_of_the_model(name):
    model, parts = preset(name), forward_flops(preset(name), 3, 2048)
    assert model.hidden_size == model.num_heads * model.head_dim
    attention = attention_flops(3, 2048, model.num_heads, model.num_kv_heads, model.head_dim)
    feed_forward = gated_mlp_flops(3 * 2048, model.hidden_size, model.ffn_size)
    assert parts["projections"] == model.num_layers * attention["projection_flops"]
    assert parts["attention"] == model.num_layers * attention["core_flops"]
    assert parts["feed_forward"] == model.num_layers * feed_forward


@pytest.mark.parametrize("name", ["Llama-3.2-1B", "Llama-3-8B", "Llama-3-70B"])
def test_the_core_overtakes_the_rest_at_the_crossover_and_not_before(name):
    found = crossover_length(preset(name))
    at, before = (forward_flops(preset(name), 1, length) for length in (found, found - 1))
    assert at["attention"] >= at["projections"] + at["feed_forward"]
    assert before["attention"] < before["projections"] + before["feed_forward"]


@pytest.mark.parametrize(("ffn_size", "length"), [(3, 13), (2, 11)], ids=["rounded up", "a tie"])
def test_crossover_by_hand(ffn_size, length):
    """The rest takes 128 + 24 f FLOPs for a token, the core 16 for each token of length."""
    assert crossover_length(dataclasses.replace(SMALL, ffn_size=ffn_size)) == length
