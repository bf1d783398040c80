"""Golden values of serving, by instruments."""

import torch

from course_utils.configs import preset
from course_utils.formulas import serving
from course_utils.instruments import count_bytes, count_flops
from course_utils.reference.cached_block import decode_attention
from course_utils.reference.latent_decode import expanded_attention, latent_attention

DEEPSEEK = preset("DeepSeek-V3")


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
