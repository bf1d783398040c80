"""Sharded training against training that repeats it all: numbers, calls, bytes, time, memory."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from course_utils.distributed import ClusterRun, Comm, Handle, Link, Network, VirtualCluster
from course_utils.formulas.sharding import step_sent_bytes
from course_utils.instruments import trace_memory
from course_utils.reference.naive_sharding import KeptLinear, all_reduced_step, waiting_step
from course_utils.reference.sharding import (
    FlatShard,
    ShardedLinear,
    clip_sharded,
    hybrid_sum,
    prefetched_step,
    sharded_step,
)

NUM_STEPS, NUM_RANKS = 3, 4


def calls_of(run: ClusterRun) -> list[str]:
    return [each.name.split(" #")[0] for each in run.communications()]


@pytest.mark.parametrize("num_ranks", [1, 2, 3, 5])
def test_a_flat_shard_comes_back(num_ranks):
    tensors = [torch.arange(12.0).view(3, 4), torch.arange(12.0, 15.0), torch.tensor(3.0)]

    def rank(comm: Comm) -> tuple[int, bool]:
        shard = FlatShard(comm, tensors)
        kept = shard.part.untyped_storage().nbytes()
        return kept, all(map(torch.equal, shard.whole(), tensors))

    assert VirtualCluster(num_ranks).run(rank).results == [(4 * -(-16 // num_ranks), True)] * (
        num_ranks
    )


def trained(comm: Comm, step) -> tuple[Tensor, int]:
    """64 weights after some steps of Adam, and the bytes that a rank's optimizer holds."""
    torch.manual_seed(0)
    weights = torch.randn(64, dtype=torch.float64)
    part = nn.Parameter(weights.chunk(comm.size)[comm.rank].clone())
    optimizer = torch.optim.Adam([part], lr=0.1, eps=0.1)
    for number in range(NUM_STEPS):
        gradient = torch.sin(weights * (comm.rank + 1) + number) / comm.size
        step(comm, weights, gradient, part, optimizer)
    states = optimizer.state[part]
    return weights, states["exp_avg"].nbytes + states["exp_avg_sq"].nbytes


def trained_whole() -> Tensor:
    torch.manual_seed(0)
    weights = nn.Parameter(torch.randn(64, dtype=torch.float64))
    optimizer = torch.optim.Adam([weights], lr=0.1, eps=0.1)
    for number in range(NUM_STEPS):
        now = weights.detach()
        shares = [torch.sin(now * (rank + 1) + number) / NUM_RANKS for rank in range(NUM_RANKS)]
        weights.grad = torch.stack(shares).sum(0)
        optimizer.step()
    return weights.detach()


# 512 bytes among four: (30 + 30) µs of latency and 2 · 3/4 · 512 B at 200 GB/s, three times.
def test_a_sharded_step_is_adam_in_the_time_of_one_all_reduce():
    run = VirtualCluster(NUM_RANKS).run(trained, sharded_step)
    for weights, moments in run.results:
        torch.testing.assert_close(weights, trained_whole(), rtol=0, atol=1e-14)
        assert moments == 256  # of 1,024
    first_two = [(each.name.split(" #")[0], each.num_bytes) for each in run.communications()[:2]]
    assert first_two == [("reduce_scatter", 512), ("all_gather", 512)]
    assert round(1e6 * run.step_seconds, 2) == 180.01
    natural = VirtualCluster(NUM_RANKS).run(trained, all_reduced_step)
    torch.testing.assert_close(natural.results[0][0], trained_whole(), rtol=0, atol=1e-14)
    assert natural.step_seconds / run.step_seconds == pytest.approx(1.5)
    assert round(1e6 * natural.step_seconds, 2) == 270.02
    assert run.sent_bytes() == NUM_STEPS * step_sent_bytes(64, NUM_RANKS, 1, 1, 8)


WIDTH, NUM_LAYERS = 32, 6
WHOLE_BYTES = 8 * WIDTH**2


def layers() -> list[Tensor]:
    torch.manual_seed(1)
    return [torch.randn(WIDTH, WIDTH, dtype=torch.float64) / 6 for _ in range(NUM_LAYERS)]


ROWS = torch.linspace(-1, 1, 8 * WIDTH, dtype=torch.float64).view(8, WIDTH)


def sharded_layers(comm: Comm, layer):
    """Gradients of all parts, and the most whole weights alive at once."""
    parts = [w.flatten().chunk(comm.size)[comm.rank].clone().requires_grad_() for w in layers()]

    def step() -> None:
        y = ROWS.chunk(comm.size)[comm.rank]
        for part in parts:
            y = torch.tanh(layer.apply(comm, y, part, (WIDTH, WIDTH)))
        (y.square().sum() / len(ROWS)).backward()

    alive = trace_memory(step, *parts).most_alive(WHOLE_BYTES)
    return [part.grad for part in parts], alive


@pytest.mark.parametrize("num_ranks", [1, 2, 4])
@pytest.mark.parametrize(
    ("layer", "gathers", "volume", "alive"), [(ShardedLinear, 12, 3, 1), (KeptLinear, 6, 2, 7)]
)
def test_sharded_layers(num_ranks, layer, gathers, volume, alive):
    weights, y = [each.requires_grad_() for each in layers()], ROWS
    for weight in weights:
        y = torch.tanh(y @ weight.T)
    (y.square().sum() / len(ROWS)).backward()
    run = VirtualCluster(num_ranks).run(sharded_layers, layer)
    for rank, (gradients, most) in enumerate(run.results):
        for weight, gradient in zip(weights, gradients, strict=True):
            wanted = weight.grad.flatten().chunk(num_ranks)[rank]
            torch.testing.assert_close(gradient, wanted, rtol=0, atol=1e-14)
        if num_ranks > 1:  # alone, a part is as large as the whole
            assert most == alive
    assert calls_of(run).count("all_gather") == gathers
    assert calls_of(run).count("reduce_scatter") == NUM_LAYERS
    total = sum(each.num_bytes for each in run.communications())
    assert total == volume * NUM_LAYERS * WHOLE_BYTES


NVLINK = Network(inside=Link(latency_seconds=10e-6, bandwidth_bytes_per_second=200e9))


def meta_step(comm: Comm, way, tokens: int) -> int:
    """Eight layers of 4,096 squared in bf16; the most whole tensors alive at once."""
    options = {"dtype": torch.bfloat16, "device": "meta"}
    parts = [torch.empty(4096**2 // comm.size, **options) for _ in range(8)]
    gradients = [torch.empty_like(each) for each in parts]
    x = torch.empty(tokens, 4096, **options)

    def compute(number: int, weight: Tensor) -> Tensor | None:
        x @ weight.view(4096, 4096)
        return None if number < 8 else (x.T @ x).flatten()

    uses = [*range(8), *reversed(range(8))]
    trace = trace_memory(lambda: way(comm, parts, uses, compute, gradients), *parts)
    return trace.most_alive(2 * 4096**2) if tokens != 4096 else 0  # where activations differ


# Milliseconds of the whole step; one gather takes 0.2168, so 0.434 is the first and the last.
@pytest.mark.parametrize(
    ("tokens", "waiting", "prefetching", "exposed"),
    [(1024, 7.265, 5.203, 3.142), (4096, 13.450, 8.680, 0.434), (16384, 38.189, 33.419, 0.434)],
)
def test_prefetching(tokens, waiting, prefetching, exposed):
    cluster = VirtualCluster(8, network=NVLINK, flops_per_second=400e12)
    runs = [cluster.run(meta_step, way, tokens) for way in (waiting_step, prefetched_step)]
    assert [round(1e3 * run.step_seconds, 3) for run in runs] == [waiting, prefetching]
    assert round(1e3 * runs[1].exposed_seconds(), 3) == exposed
    assert round(1e3 * NVLINK.seconds("all_gather", 2 * 4096**2, range(8)), 4) == 0.2168


# Milliseconds of a step that takes 8.680 if nobody waits before it must.
@pytest.mark.parametrize(
    ("call", "milliseconds"), [("all_gather", 13.233), ("reduce_scatter", 10.198)]
)
def test_a_call_that_is_waited_for_at_once_hides_nothing(call, milliseconds):
    def hasty_step(comm: Comm, *args: Any) -> None:
        later = getattr(comm, call)

        def at_once(*tensors: Tensor, async_op: bool) -> Handle:
            handle: Handle = later(*tensors, async_op=async_op)
            handle.wait()
            return handle

        setattr(comm, call, at_once)
        prefetched_step(comm, *args)

    run = VirtualCluster(8, network=NVLINK, flops_per_second=400e12).run(
        meta_step, hasty_step, 4096
    )
    assert round(1e3 * run.step_seconds, 3) == milliseconds


# As PyTorch's `FSDPMemTracker` finds for FSDP2: four whole layers above the parts.
def test_prefetching_has_two_weights_and_two_gradients():
    cluster = VirtualCluster(8, network=NVLINK, flops_per_second=400e12)
    assert cluster.run(meta_step, prefetched_step, 1024).results == [4] * 8


# 12 numbers on two nodes of three ranks: 2/3 of 96 bytes in the node, a part of 32 beyond it.
def test_hybrid_sums_cross_nodes_with_a_part():
    def rank(comm: Comm) -> Tensor:
        return hybrid_sum(comm, torch.arange(12.0, dtype=torch.float64) * (comm.rank + 1), 3)

    run = VirtualCluster(6).run(rank)
    whole = 21 * torch.arange(12.0, dtype=torch.float64)
    for number, part in enumerate(run.results):
        assert torch.equal(part, whole.chunk(3)[number % 3])
    assert [run.sent_bytes(rank) for rank in range(6)] == [64 + 32] * 6


# Parts 3 and 4, twice: the norm is √50.
def test_clipping_by_the_norm_of_all_parts():
    def rank(comm: Comm) -> tuple[float, float]:
        gradient = torch.tensor([(3.0, 3.0, 4.0, 4.0)[comm.rank]], dtype=torch.float64)
        return float(clip_sharded(comm, [gradient], 1.0)), gradient.item()

    run = VirtualCluster(4).run(rank)
    for mine, (norm, clipped) in zip((3, 3, 4, 4), run.results, strict=True):
        assert norm == pytest.approx(50**0.5)
        assert clipped == pytest.approx(mine / 50**0.5)
    assert [each.num_bytes for each in run.communications()] == [8]
