"""Parameters and FLOPs of whole models, compared with the model itself on the meta device."""

import pytest
import torch

from course_utils.configs import MODELS, ModelConfig, preset
from course_utils.formulas.flops import forward_flops
from course_utils.formulas.parameters import active_parameters, parameters, parameters_by_part
from course_utils.instruments import count_flops
from course_utils.reference import Transformer
from tests.random_models import KINDS, random_model

CASES = [(kind, seed) for kind in KINDS for seed in range(6)]


def counted(model: ModelConfig, num_sequences: int, seq_len: int):
    built = Transformer(model, device="meta")
    ids = torch.zeros(num_sequences, seq_len, dtype=torch.long, device="meta")
    return count_flops(lambda: built(ids))


@pytest.mark.parametrize(("kind", "seed"), CASES)
def test_parameters_are_those_of_the_model(kind, seed):
    model = random_model(kind, seed)
    built = Transformer(model, device="meta")
    assert sum(parameters(model).values()) == sum(p.numel() for p in built.parameters())


@pytest.mark.parametrize("kind", KINDS)
def test_embedding_and_head_are_one_part_of_four(kind):
    model = random_model(kind, 0)
    parts = parameters_by_part(model)
    assert list(parts) == ["attention", "feed_forward", "norms", "embedding_and_head"]
    assert sum(parts.values()) == sum(parameters(model).values())


@pytest.mark.parametrize(("kind", "seed"), CASES)
def test_flops_are_those_that_run_and_training_takes_three_times_as_many(kind, seed):
    model = random_model(kind, seed)
    num_sequences, seq_len = 1 + seed % 3, 8 * (1 + seed)
    forward, backward = counted(model, num_sequences, seq_len)
    assert forward == sum(forward_flops(model, num_sequences, seq_len).values())
    assert backward == 2 * forward


# Published totals: GPT-2 and Llama 3 from their weights, Mixtral 46.7B, DeepSeek-V3 671B.
PUBLISHED = {
    "GPT-2-124M": 124_439_808,
    "Llama-3.2-1B": 1_235_814_400,
    "Llama-3-8B": 8_030_261_248,
    "Llama-3-70B": 70_553_706_496,
    "Llama-3-405B": 405_853_388_800,
    "Mixtral-8x7B": 46_702_792_704,
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters_of_published_models(name):
    assert sum(parameters(preset(name)).values()) == PUBLISHED[name]


@pytest.mark.parametrize("name", MODELS)
def test_presets_are_built_without_memory_and_counted(name):
    built = Transformer(preset(name), device="meta")
    assert sum(parameters(preset(name)).values()) == sum(p.numel() for p in built.parameters())


def test_deepseek_v3_has_671_billion_parameters_and_37_billion_active_ones():
    model = preset("DeepSeek-V3")
    assert round(sum(parameters(model).values()) / 1e9) == 671
    # The report counts 37B with the embedding; without it a token uses 36.6B.
    assert 36.5e9 < sum(active_parameters(model).values()) < 38e9


def test_mixtral_has_13_billion_active_parameters():
    assert round(sum(active_parameters(preset("Mixtral-8x7B")).values()) / 1e9) == 13


@pytest.mark.parametrize("kind", ["GPT", "grouped", "latent"])
def test_without_experts_every_parameter_is_active(kind):
    model = random_model(kind, 1)
    assert active_parameters(model) == parameters(model)


def test_llama_3_2_1b_takes_9025093632_flops_for_a_token():
    """Forward and backward at 4,096 tokens, full attention."""
    forward = sum(forward_flops(preset("Llama-3.2-1B"), 1, 4096).values())
    assert 3 * forward == 4096 * 9_025_093_632


def test_llama_3_8b_forward_at_8192():
    assert sum(forward_flops(preset("Llama-3-8B"), 1, 8192).values()) == 158_140_695_838_720
    assert counted(preset("Llama-3-8B"), 1, 8192) == (158_140_695_838_720, 316_281_391_677_440)
