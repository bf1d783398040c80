"""Golden values of serving, by formulas and by instruments: counts are equal, rates as stated."""

import random

import pytest
import torch

from course_utils.configs import preset
from course_utils.formulas import roofline, serving
from course_utils.instruments import count_bytes, count_flops
from course_utils.reference.cached_block import decode_attention
from course_utils.reference.latent_decode import expanded_attention, latent_attention

BANDWIDTH = 2.039e12  # of an A100-80
BATCHES = (1, 2, 4, 8, 16)
LLAMA, MIXTRAL, DEEPSEEK = map(preset, ("Llama-3-8B", "Mixtral-8x7B", "DeepSeek-V3"))


def read_bytes(num_sequences):
    return 2 * serving.weights_read(MIXTRAL, num_sequences)


def best_draft(acceptance):
    """The draft length that is fastest, and how many times as fast."""
    speedups = [serving.speculation(acceptance, 0.05, n)["speedup"] for n in range(30)]
    return speedups.index(max(speedups)), round(max(speedups), 2)


def with_weights_of(element_bytes, num_sequences):
    """Tokens/s of Llama-3-8B after 1,256 tokens on an A100, with its weights in another format."""
    moved = element_bytes * serving.weights_read(LLAMA, num_sequences)
    moved += serving.cache_bytes(LLAMA, num_sequences, 1256, 2)
    flops = roofline.decode_flops(LLAMA, num_sequences, 1256)
    return round(num_sequences / roofline.roofline_seconds([(flops, moved)], 312e12, BANDWIDTH))


def skewed_choices():
    """The two favourite experts of 64 tokens, of 8 experts, two of which many like."""
    rng = random.Random(0)
    scores = [[rng.random() + 0.3 * (e < 2) for e in range(8)] for _ in range(64)]
    return [sorted(range(8), key=lambda e, row=row: -row[e])[:2] for row in scores]


def lost(name):
    return [serving.capacity_losses(skewed_choices(), 8, n)[name] for n in (16, 20, 32)]


CACHE_OF_A_TOKEN = {
    "GPT-3-175B": 4_718_592,
    "Llama-3.2-1B": 32_768,
    "Llama-3-8B": 131_072,
    "Mixtral-8x7B": 131_072,
    "Llama-3-70B": 327_680,
    "Llama-3-405B": 516_096,
    "DeepSeek-V3": 70_272,
}
FORMULAS = {
    "cache of a token": (
        {name: serving.cache_bytes(preset(name), 1, 1, 2) for name in CACHE_OF_A_TOKEN},
        CACHE_OF_A_TOKEN,
    ),
    "cache of a sequence": (
        [serving.cache_bytes(LLAMA, 1, 8192, 2), serving.cache_bytes(DEEPSEEK, 1, 4096, 2)],
        [1_073_741_824, 287_834_112],
    ),
    "a latent in groups of keys and values": (serving.cached_numbers(DEEPSEEK) / 256, 2.25),
    "GB that a step of Mixtral reads": (
        [round(read_bytes(n) / 1e9, 1) for n in BATCHES],
        [25.5, 42.4, 64.6, 84.1, 92.2],
    ),
    "tokens/s of Mixtral": (
        [round(n * BANDWIDTH / read_bytes(n)) for n in BATCHES],
        [80, 96, 126, 194, 354],
    ),
    "experts that tokens reach": (
        [round(serving.expected_experts(8, 2, n), 2) for n in BATCHES],
        [2.0, 3.5, 5.47, 7.2, 7.92],
    ),
    "experts of DeepSeek-V3 that 32 tokens reach": (
        [
            round(serving.expected_experts(256, 8, 32)),
            round(8 * 32 / serving.expected_experts(256, 8, 32), 2),
        ],
        [163, 1.57],
    ),
    "choices dropped": (lost("dropped"), [31, 23, 0]),
    "empty places with room for twice as many": (lost("empty_places")[-1], 128),
    "drafts": (
        [best_draft(each) for each in (0.5, 0.7, 0.8, 0.9)],
        [(3, 1.63), (6, 2.35), (8, 3.09), (13, 4.67)],
    ),
    "tokens/s by the format of weights": (
        [[with_weights_of(each, n) for n in (1, 64)] for each in (2, 1, 0.5)],
        [[134, 5_108], [266, 7_233], [521, 9_133]],
    ),
}


@pytest.mark.parametrize(("computed", "golden"), FORMULAS.values(), ids=FORMULAS)
def test_formulas(computed, golden):
    assert computed == golden


def latent_flops(form, num_cached):
    """FLOPs of a new token of DeepSeek-V3 in one layer, without its projections."""
    sizes = DEEPSEEK.latent_attention
    nope, rope, value = sizes.nope_head_dim, sizes.rope_head_dim, sizes.value_head_dim
    a, rank = DEEPSEEK.num_heads, sizes.kv_rank
    shapes = [(1, a, nope), (1, a, rope), (1, num_cached, rank), (1, num_cached, rope)]
    tensors = [torch.empty(s, device="meta") for s in (*shapes, (rank, a, nope), (rank, a, value))]
    return count_flops(lambda: form(*tensors)).forward_flops


def test_a_token_after_4096_in_latents():
    """With queries and output, h a (192 + 128) multiply-adds."""
    projections = 2 * 7168 * 128 * (192 + 128)
    expanded, absorbed = (
        latent_flops(form, 4096) + projections for form in (expanded_attention, latent_attention)
    )
    assert (expanded, absorbed) == (138_361_700_352, 1_761_607_680)
    assert round(expanded / absorbed, 1) == 78.5


def test_a_prompt_in_latents():
    """The first token, in MFLOP; 4,096 tokens, in GFLOP: the matrices once, all pairs of tokens."""
    found = []
    for form in (expanded_attention, latent_attention):
        one, two = (latent_flops(form, n) for n in (1, 2))
        up = 2 * 512 * 128 * (128 + 128)
        pair = one - up
        found.append((round(one / 1e6, 2), round((4096 * up + 4096**2 * pair) / 1e9)))
        assert two == one + pair + (up if form is expanded_attention else 0)
    assert found == [(33.64, 1_512), (33.83, 4_810)]


def test_intensity_of_latents():
    """Scores and sums over a latent of 512 and a rotary key of 64, for 128 heads, in bf16."""
    flops = latent_flops(latent_attention, 2) - latent_flops(latent_attention, 1)
    once = serving.cache_bytes(DEEPSEEK, 1, 1, 2) / DEEPSEEK.num_layers
    assert round(flops / once, 1) == 241.8
    assert flops / (once + 2 * 512) == 128


def test_bytes_of_a_cached_step():
    """Two sequences of 100 tokens, 8 heads on 2, width 16: the cache is read once."""
    q, k_new, v_new = torch.ones(2, 8, 16), torch.ones(2, 2, 16), torch.ones(2, 2, 16)
    caches = [torch.zeros(2, 2, 100, 16) for _ in range(2)]
    moved = count_bytes(lambda: decode_attention(q, k_new, v_new, *caches, 99), cache=caches)
    assert moved.of("cache").read_bytes == 51_200
    assert sum(moved.of("other")) == 2_112 + k_new.nbytes + v_new.nbytes
