"""Latent attention and experts, compared with the modules themselves on the meta device."""

import pytest
import torch

from course_utils.configs import LatentAttention, ModelConfig, preset
from course_utils.formulas.designs import expert_parameters, latent_attention_flops
from course_utils.instruments import count_flops
from course_utils.reference.experts import MixtureOfExperts
from course_utils.reference.layers import MultiHeadLatentAttention
from tests.random_models import random_model


@pytest.mark.parametrize("model", [random_model("latent", 1), preset("DeepSeek-V3")])
def test_latent_attention_is_what_runs(model: ModelConfig):
    assert model.latent_attention
    layer = MultiHeadLatentAttention(model, model.latent_attention, "meta")
    stream = torch.empty(3, 8, model.hidden_size, device="meta")
    computed = latent_attention_flops(model, 3, 8)
    assert sum(computed.values()) == count_flops(lambda: layer(stream)).forward_flops


def test_latent_attention_by_hand():
    """Width 8, two heads, ranks 3 and 5, head widths 4, 2 and 3: 234 weights; 48 + 24 products."""
    model = ModelConfig(
        num_layers=1,
        hidden_size=8,
        num_heads=2,
        ffn_size=3,
        vocab_size=5,
        latent_attention=LatentAttention(
            q_rank=3, kv_rank=5, nope_head_dim=4, rope_head_dim=2, value_head_dim=3
        ),
    )
    assert latent_attention_flops(model, 1, 2) == {"projection_flops": 936, "core_flops": 144}


def test_another_attention_is_rejected():
    with pytest.raises(ValueError, match="the model has no latent_attention; give it one"):
        latent_attention_flops(preset("Llama-3-8B"), 1, 8)


@pytest.mark.parametrize("name", ["Mixtral-8x7B", "DeepSeek-V3"])
def test_parameters_of_experts_are_those_of_the_layer(name):
    """Total is what lies in the tensors; active is half of the FLOPs of a token."""
    model = preset(name)
    sizes = model.experts
    layer = MixtureOfExperts(model, sizes, "meta")
    stream = torch.empty(1, sizes.num_experts, model.hidden_size, device="meta")
    flops = count_flops(lambda: layer(stream)).forward_flops
    assert expert_parameters(
        model.hidden_size,
        sizes.num_experts,
        sizes.experts_per_token,
        sizes.expert_ffn_size,
        sizes.num_shared_experts,
    ) == {
        "total_parameters": sum(each.numel() for each in layer.parameters()),
        "active_parameters": flops // (2 * sizes.num_experts),
    }


def test_experts_by_hand():
    """Three experts of 3 · 4 · 5 = 60 parameters, a router of 12."""
    assert expert_parameters(4, 3, 1, 5, 0) == {"total_parameters": 192, "active_parameters": 72}
    with pytest.raises(ValueError, match="num_experts must be above zero, got 0"):
        expert_parameters(4, 0, 1, 5, 0)
