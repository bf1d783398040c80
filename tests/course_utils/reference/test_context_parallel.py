"""A sequence on several ranks gives what one rank gives, and zigzag shares its work."""

import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from course_utils.distributed import Comm, Link, Network, VirtualCluster
from course_utils.reference.context_parallel import (
    attend_pieces,
    combine_over_ranks,
    ring_attention,
    zigzag_positions,
)

TOKENS, D = 32, 4
FREE = Network(inside=Link(latency_seconds=0.0, bandwidth_bytes_per_second=1e30))


def sequence(scale: float = 1.0) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(TOKENS, D, generator=generator, dtype=torch.float64) for _ in range(3))
    return [scale * q, k, v]


def positions(layout: str, num_ranks: int) -> list[Tensor]:
    if layout == "contiguous":
        return [each[None] for each in torch.arange(TOKENS).chunk(num_ranks)]
    if layout == "striped":
        return [torch.arange(rank, TOKENS, num_ranks)[None] for rank in range(num_ranks)]
    return [torch.tensor(zigzag_positions(rank, num_ranks, TOKENS)) for rank in range(num_ranks)]


def on_ring(comm: Comm, layout: str, scale: float = 1.0) -> Tensor:
    placed = positions(layout, comm.size)
    mine = placed[comm.rank]
    q, k, v = (each[mine.flatten()] for each in sequence(scale))

    def attend(q: Tensor, k: Tensor, v: Tensor, owner: int) -> tuple[Tensor, Tensor]:
        return attend_pieces(q, k, v, mine, placed[owner])

    return ring_attention(comm, attend, q, k, v)


@pytest.mark.parametrize("layout", ["contiguous", "striped", "zigzag"])
@pytest.mark.parametrize(("num_ranks", "scale"), [(1, 1), (2, 400), (4, 1), (4, 400), (8, 400)])
def test_a_ring_gives_what_one_rank_gives(layout, num_ranks, scale):
    run = VirtualCluster(num_ranks).run(on_ring, layout, scale)
    order = torch.cat([each.flatten() for each in positions(layout, num_ranks)]).argsort()
    ours = torch.cat(run.results)[order]
    q, k, v = (each[None, None] for each in sequence(scale))
    exact = F.scaled_dot_product_attention(q, k, v, is_causal=True)[0, 0]
    torch.testing.assert_close(ours, exact)
    sent = sum(each.num_bytes for each in run.sent_by(0))
    assert sent == 2 * (num_ranks - 1) * TOKENS // num_ranks * D * 8


# In units of one block of (S / c) squared scores.
@pytest.mark.parametrize(
    ("layout", "num_ranks", "work"),
    [
        ("contiguous", 2, [1, 2]),
        ("contiguous", 4, [1, 2, 3, 4]),
        ("contiguous", 8, [1, 2, 3, 4, 5, 6, 7, 8]),
        ("zigzag", 2, [1.25] * 2),
        ("zigzag", 4, [2.25] * 4),
        ("zigzag", 8, [4.25] * 8),
        # One token each in turn: in every block some query sees some key, so none is skipped.
        ("striped", 2, [2] * 2),
        ("striped", 4, [4] * 4),
        ("striped", 8, [8] * 8),
    ],
)
def test_work_of_each_rank(layout, num_ranks, work):
    block_flops = 4 * D * (TOKENS // num_ranks) ** 2
    cluster = VirtualCluster(num_ranks, network=FREE, flops_per_second=block_flops)
    run = cluster.run(on_ring, layout)
    assert [run.compute_seconds(rank) for rank in range(num_ranks)] == pytest.approx(work)
    assert run.step_seconds == pytest.approx(max(work))


# A part weighs exp(log-sum-exp) of its scores, of which large ones leave no finite number.
@pytest.mark.parametrize(
    ("way", "scale", "error"),
    [
        ("mean of the results", 1, 0.85),
        ("each part by its own maximum", 1, 1.15),
        ("no maximum", 1, 0.0),
        ("no maximum", 400, math.nan),
    ],
)
def test_wrong_combinations_are_off_by_what_is_known_of_them(way, scale, error):
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, TOKENS, D, dtype=torch.float64) for _ in range(3))
    q, placed = scale * q, positions("contiguous", 4)

    def combined(q: Tensor, k: Tensor, v: Tensor, rank: int) -> Tensor:
        numerator, denominator = torch.zeros(1), torch.zeros(1)
        here = placed[rank]
        for there in placed[: rank + 1]:
            queries, keys, values = q[here[0]], k[there[0]], v[there[0]]
            out, lse = attend_pieces(queries, keys, values, here, there)
            scores = (queries @ keys.T * D**-0.5).masked_fill(there > here.T, -torch.inf)
            exponent = {
                "mean of the results": torch.zeros_like(lse),
                "each part by its own maximum": lse - scores.amax(1),
                "no maximum": lse,
            }[way]
            weight = exponent.exp()[:, None]
            numerator, denominator = numerator + weight * out, denominator + weight
        return numerator / denominator

    heads = zip(q, k, v, strict=True)
    ours = torch.stack([torch.cat([combined(*head, rank) for rank in range(4)]) for head in heads])
    exact = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    most = (ours - exact).abs().max().item()
    assert most == pytest.approx(error, abs=5e-3 if error else 1e-14, nan_ok=True)


def test_zigzag_by_hand():
    assert [zigzag_positions(rank, 2, 8) for rank in range(2)] == [
        [[0, 1], [6, 7]],
        [[2, 3], [4, 5]],
    ]


def test_results_are_combined_over_ranks():
    q, k, v = sequence(scale=400)

    def step(comm: Comm) -> Tensor:
        keys, values = (each.chunk(comm.size)[comm.rank] for each in (k, v))
        scores = q @ keys.T
        if comm.rank == 0:
            scores[0] = -torch.inf  # a row without keys here
        lse = scores.logsumexp(1)
        weights = torch.exp(scores - torch.where(lse == -torch.inf, 0.0, lse)[:, None])
        return combine_over_ranks(comm, weights @ values, lse)

    scores = q @ k.T
    scores[0, : TOKENS // 4] = -torch.inf
    for result in VirtualCluster(4).run(step).results:
        torch.testing.assert_close(result, scores.softmax(1) @ v)
