"""Three orders of attention on the machine: one result, and the traffic of the formulas."""

import itertools
import random

import pytest
import torch
from torch.nn import functional as F

from course_utils.formulas.attention_tiles import (
    attention_bounds,
    attention_traffic,
    document_tiles,
    visited_tiles,
)
from course_utils.instruments import TwoLevelMemory, count_flops, count_saved_bytes
from course_utils.reference.flash import flash_attention
from course_utils.reference.online_softmax import merge, online_softmax
from course_utils.reference.tiled_attention import (
    flash_forward,
    flash_forward_keys_outer,
    materialised_forward,
)
from course_utils.reference.tiled_forward import tiled_forward

# Queries, keys, width of a head, queries and keys of a tile; whole tiles, and ragged ones.
SIZES = [(64, 96, 8, 16, 8), (50, 70, 8, 16, 32), (7, 5, 3, 9, 2), (1, 1, 2, 1, 1)]


def attention(num_queries, num_keys, head_dim):
    shapes = [(num_queries, head_dim), (num_keys, head_dim), (num_keys, head_dim)]
    generator = torch.Generator().manual_seed(num_queries)
    return [torch.randn(s, generator=generator, dtype=torch.float64) for s in shapes]


def attention_at_once(q, k, v):
    """Result and log-sum-exp of each query, with all scores in memory."""
    scores = q @ k.mT * q.shape[-1] ** -0.5
    return scores.softmax(-1) @ v, scores.logsumexp(-1)


def zeros(*shape):
    return torch.zeros(shape, dtype=torch.float64)


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("name", ["materialised", "k_outer", "q_outer"])
def test_result_and_traffic(name, sizes):
    n, m, d, block_q, block_k = sizes
    q, k, v = attention(n, m, d)
    wanted, wanted_lse = attention_at_once(q, k, v)
    out, lse, machine = zeros(n, d), zeros(n), TwoLevelMemory()
    if name == "materialised":
        tensors, program = [q, k, v, zeros(n, m), zeros(n, m), out], materialised_forward
    else:
        tensors = [q, k, v, out, lse]
        program = flash_forward if name == "q_outer" else flash_forward_keys_outer
    arrays = [machine.slow(each) for each in tensors]
    program(machine, arrays, block_q, block_k)
    assert torch.allclose(out, wanted, rtol=1e-12, atol=1e-12)
    if name != "materialised":
        assert torch.allclose(lse, wanted_lse, rtol=1e-12)
    assert machine.traffic_elements == attention_traffic(*sizes)[name]
    assert machine.live_elements == 0


def test_golden_bytes_and_flops_of_flash_attention():
    q, k, v = (
        torch.randn(1, 2, 512, 32, dtype=torch.float64, requires_grad=True) for _ in range(3)
    )
    later = torch.ones(512, 512, dtype=torch.bool).triu(1)

    def flash():
        return flash_attention(tiled_forward, q, k, v, 64)

    def with_scores():
        return (q @ k.mT * 32**-0.5).masked_fill(later, -torch.inf).softmax(-1) @ v

    assert count_saved_bytes(flash, q, k, v).total_bytes / q.nbytes == 1.03125
    kept = count_saved_bytes(with_scores, q, k, v, later)
    assert max(each.storage_bytes for each in kept.tensors) == 16 * q.nbytes
    assert count_flops(flash) == (37_748_736, 94_371_840)
    assert count_flops(flash).forward_flops * 64 == 36 * count_flops(with_scores).forward_flops


def test_visited_tiles_are_those_of_a_mask():
    rng = random.Random(0)
    for _ in range(50):
        n = rng.randint(1, 20)
        m, bq, bk = n + rng.randint(0, 12), rng.randint(1, 9), rng.randint(1, 9)
        mask = torch.ones(n, m, dtype=torch.bool).tril(m - n)
        starts = itertools.product(range(0, n, bq), range(0, m, bk))
        counted = sum(bool(mask[i : i + bq, j : j + bk].any()) for i, j in starts)
        assert visited_tiles(n, m, bq, bk) == counted


def test_document_tiles_are_those_of_a_mask():
    rng = random.Random(0)
    for _ in range(50):
        lengths, block = [rng.randint(1, 9) for _ in range(rng.randint(1, 5))], rng.randint(1, 7)
        owner = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths))
        mask = (owner[:, None] == owner).tril()
        places = range(0, len(owner), block)
        tiles = [mask[i : i + block, j : j + block] for i, j in itertools.product(places, places)]
        full = sum(bool(tile.all()) for tile in tiles)
        partial = sum(bool(tile.any()) for tile in tiles) - full
        assert document_tiles(lengths, block) == {"full": full, "partial": partial}


def test_an_h100_needs_its_cache():
    shape = {"batch": 1, "heads": 32, "kv_heads": 32, "seq": 16384, "head_dim": 128}
    h100 = {"peak": 989_400_000_000_000, "bandwidth": 3_350_000_000_000}
    h100 |= {"l2_bytes": 50_000_000, "processors": 132}
    bounds = attention_bounds(shape, 128, h100)
    assert bounds["l2_bytes"] == 4 * 32 * 16384 * 128 * 2
    assert round(bounds["dram_rate"] / h100["peak"], 2) == 0.43
    assert bounds["l2_rate"] == h100["peak"]
    too_long = attention_bounds(shape | {"seq": 200_000}, 128, h100)
    assert too_long["l2_bytes"] == too_long["dram_bytes"]


@pytest.mark.parametrize("gain", [1, 400])
def test_online_softmax(gain):
    q, k, v = attention(6, 17, 4)
    scores = gain * q @ k.mT
    scores[1], scores[2, :5] = -torch.inf, -torch.inf
    scores[3] = scores[3] - 2000 * gain
    out, lse = online_softmax(zip(scores.split(5, 1), v.split(5), strict=True))
    wanted = scores.softmax(1) @ v
    wanted[1] = 0
    assert torch.allclose(out, wanted, rtol=1e-12, atol=1e-12)
    assert torch.allclose(lse, scores.logsumexp(1), rtol=1e-12)


def test_merged_parts_in_every_order():
    q, k, v = attention(4, 20, 3)
    scores = 300 * q @ k.mT
    scores[:, 5:9] = -torch.inf  # a part that nobody sees
    parts = [
        online_softmax([(scores[:, piece], v[piece])])
        for piece in (slice(0, 5), slice(5, 9), slice(9, 12), slice(12, 20))
    ]
    for order in itertools.permutations(parts):
        out, lse = order[0]
        for part in order[1:]:
            out, lse = merge(out, lse, *part)
        assert torch.allclose(out, scores.softmax(1) @ v, rtol=1e-12, atol=1e-12)
        assert torch.allclose(lse, scores.logsumexp(1), rtol=1e-12)


@pytest.mark.parametrize(("seq_len", "block"), [(32, 8), (37, 8), (5, 9)])
def test_flash_attention_in_torch_against_the_fused_kernel(seq_len, block):
    q, k, v = (
        torch.randn(2, 3, seq_len, 4, dtype=torch.float64, requires_grad=True) for _ in range(3)
    )

    def ours():
        return flash_attention(tiled_forward, q, k, v, block)

    def fused():
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    assert torch.allclose(ours(), fused(), rtol=1e-12, atol=1e-12)
    upstream = torch.randn(q.shape, dtype=torch.float64)
    one, other = (torch.autograd.grad(f(), (q, k, v), upstream) for f in (ours, fused))
    for grad, wanted in zip(one, other, strict=True):
        assert torch.allclose(grad, wanted, rtol=1e-11, atol=1e-11)
    saved = count_saved_bytes(ours, q, k, v)
    assert saved.total_bytes == q.nbytes + q.nbytes // 4  # the result, one number a row
    assert saved.unseen_bytes == 0
    forward, backward = count_flops(ours)
    assert 2 * backward == 5 * forward
