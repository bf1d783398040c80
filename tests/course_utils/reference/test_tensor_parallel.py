"""A layer on several ranks gives what one rank gives, keeps its share and makes as few calls."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from course_utils.configs import preset
from course_utils.distributed import (
    ClusterRun,
    Comm,
    Link,
    Network,
    NullComm,
    VirtualCluster,
    run_ranks,
)
from course_utils.instruments import count_saved_bytes
from course_utils.reference.attention import attend, attend_materialised
from course_utils.reference.tensor_parallel import (
    f_and_g,
    gather_and_scatter,
    gathered_product,
    parallel_attention,
    parallel_mlp,
    sum_replicated_gradients,
)
from course_utils.show.tensor_parallel import layer_milliseconds

Shapes = dict[str, tuple[int, ...]]
H, UNITS, HEAD_DIM, TOKENS = 16, 48, 4, 12
SHAPES: Shapes = {
    "q": (H, H),
    "k": (H // 2, H),
    "v": (H // 2, H),
    "o": (H, H),
    "gate": (UNITS, H),
    "up": (UNITS, H),
    "down": (H, UNITS),
    "bias": (H,),
    "norm1": (H,),
    "norm2": (H,),
}
EQUAL_HEADS: Shapes = {"k": (H, H), "v": (H, H)}  # a key head for each of the four query heads


def tensors(shapes: Shapes = SHAPES) -> tuple[Tensor, dict[str, Tensor]]:
    generator = torch.Generator().manual_seed(0)
    x, *weights = (
        torch.randn(shape, generator=generator, dtype=torch.float64) / 4
        for shape in ((TOKENS, H), *shapes.values())
    )
    named = {name: each.requires_grad_() for name, each in zip(shapes, weights, strict=True)}
    return 4 * x, named


def blocks(comm: Comm, way: str, x: Tensor, w: dict[str, Tensor]) -> Tensor:
    ends = (gather_and_scatter if way == "sequence" else f_and_g)(comm)
    z = x + parallel_attention(comm, *ends, F.rms_norm(x, (H,), w["norm1"]), w, HEAD_DIM)
    return z + parallel_mlp(comm, *ends, F.rms_norm(z, (H,), w["norm2"]), w)


def layer(comm: Comm, way: str, shapes: Shapes = SHAPES) -> dict[str, Tensor]:
    """A layer with norms; under sequence parallelism the result and x are this rank's tokens."""
    x, w = tensors(shapes)
    x = (x.chunk(comm.size)[comm.rank].clone() if way == "sequence" else x).requires_grad_()
    bias, w["bias"] = w["bias"], torch.zeros(H, dtype=torch.float64)
    z = blocks(comm, way, x, w) + bias
    z.square().sum().backward()
    named = {**w, "down_bias": bias}
    if way == "sequence":
        sum_replicated_gradients(comm, named)
    gradients = {name: each.grad for name, each in named.items() if each.grad is not None}
    return {"z": z.detach(), "x": x.grad, **gradients}


def assert_like_one_rank(ranks: list[dict[str, Tensor]], way: str) -> None:
    (one,) = VirtualCluster(1).run(layer, "tensor").results
    for name, theirs in one.items():
        each = [rank[name] for rank in ranks]
        if name in ("z", "x") and way == "sequence":
            torch.testing.assert_close(torch.cat(each), theirs)
        elif name in ("z", "x", "norm1", "norm2", "down_bias"):
            for ours in each:
                torch.testing.assert_close(ours, theirs)
        else:
            torch.testing.assert_close(torch.stack(each).sum(0), theirs)


@pytest.mark.parametrize("way", ["tensor", "sequence"])
@pytest.mark.parametrize("num_ranks", [1, 2])
def test_results_and_gradients_are_those_of_one_rank(way, num_ranks):
    assert_like_one_rank(VirtualCluster(num_ranks).run(layer, way).results, way)


def test_real_processes_agree():
    assert_like_one_rank(run_ranks(layer, 2, "sequence"), "sequence")


def calls_of(run: ClusterRun) -> list[tuple[str, int]]:
    return [(each.name.split()[0], each.num_bytes) for each in run.communications()]


@pytest.mark.parametrize("num_ranks", [1, 2, 4])
def test_calls_of_a_layer(num_ranks):
    u, shapes = TOKENS * H * 8, SHAPES | EQUAL_HEADS
    assert u == 1536
    run = VirtualCluster(num_ranks).run(layer, "tensor", shapes)
    assert calls_of(run) == [("all_reduce", u)] * 4
    assert run.sent_bytes() == 4 * 2 * (num_ranks - 1) * u // num_ranks
    calls = calls_of(VirtualCluster(num_ranks).run(layer, "sequence", shapes))
    assert calls[:8] == [("all_gather", u), ("reduce_scatter", u)] * 4
    assert calls[8:] == [("all_reduce", 128)] * 3  # two norms and a bias


# Of a bias that each rank adds to its part of the sum, all but one are too many.
@pytest.mark.parametrize("num_ranks", [1, 2, 4])
def test_a_bias_before_the_sum_is_added_by_every_rank(num_ranks):
    def results(comm: Comm) -> tuple[Tensor, Tensor]:
        x, w = tensors()
        f, g = f_and_g(comm)
        bias, without = w["bias"], w | {"bias": torch.zeros(H, dtype=torch.float64)}
        wrong = parallel_mlp(comm, f, lambda part: g(part + bias), x, without)
        return wrong - parallel_mlp(comm, f, g, x, w), bias.expand(TOKENS, H)

    for error, bias in VirtualCluster(num_ranks).run(results).results:
        torch.testing.assert_close(error, (num_ranks - 1) * bias, rtol=0, atol=1e-14)


# The course's attention is fused; with every weight of the softmax written out a layer keeps
# 4,224 bytes more on one rank, and a t-th of that on t: 38,592, 24,000 and 16,704.
@pytest.mark.parametrize(
    ("attention", "kept"),
    [(attend, [34368, 21888, 15648]), (attend_materialised, [38592, 24000, 16704])],
)
def test_bytes_that_a_layer_keeps(monkeypatch, attention, kept):
    monkeypatch.setattr("course_utils.reference.tensor_parallel.attend", attention)

    def kept_by(num_ranks: int) -> int:
        x, w = tensors(SHAPES | EQUAL_HEADS)
        x.requires_grad_()
        w["bias"] = torch.zeros(H, dtype=torch.float64)
        saved = count_saved_bytes(lambda: blocks(NullComm(num_ranks), "tensor", x, w), *w.values())
        assert not saved.unseen
        return saved.total_bytes

    assert [kept_by(num_ranks) for num_ranks in (1, 2, 4)] == kept


@pytest.mark.parametrize(
    ("way", "kept"),
    [
        ("tensor", [6144, 3840, 2688]),
        ("sequence", [6144, 3840, 2688]),  # the gathered input of the product is kept
        ("shards kept", [6144, 3072, 1536]),
    ],
)
def test_bytes_that_an_mlp_keeps(way, kept):
    def kept_by(num_ranks: int) -> int:
        comm = NullComm(num_ranks)
        x = torch.ones(TOKENS // (1 if way == "tensor" else num_ranks), H, dtype=torch.float64)
        x.requires_grad_()
        _, w = tensors()
        up, down = w["up"][: UNITS // num_ranks], w["down"][:, : UNITS // num_ranks]
        enter, leave = (f_and_g if way == "tensor" else gather_and_scatter)(comm)

        def mlp() -> Tensor:
            first = gathered_product(comm, x, up) if way == "shards kept" else enter(x) @ up.T
            return leave(torch.relu(first) @ down.T)

        saved = count_saved_bytes(mlp, w["up"], w["down"])
        assert not saved.unseen
        return saved.total_bytes

    assert [kept_by(num_ranks) for num_ranks in (1, 2, 4)] == kept


def test_both_calls_of_backward_hide_behind_products():
    """A gather takes 3 s, each product 8 s; nothing of it is exposed in backward."""
    link = Link(latency_seconds=0.0, bandwidth_bytes_per_second=8 * 4 * 4 / 2 / 3)

    def step(comm: Comm) -> None:
        shard, weight = (
            torch.ones(shape, dtype=torch.float64, requires_grad=True) for shape in ((2, 4), (3, 4))
        )
        gathered_product(comm, shard, weight).sum().backward()

    run = VirtualCluster(2, network=Network(inside=link), flops_per_second=12.0).run(step)
    assert run.step_seconds == pytest.approx(3 + 8 + 8 + 8)


def test_the_layer_of_the_explorer_takes_as_long_as_on_the_virtual_cluster():
    model, ranks = preset("Llama-3-8B"), (1, 2, 4, 8, 16)
    inside = Link(latency_seconds=5e-6, bandwidth_bytes_per_second=400e9)
    between = Link(latency_seconds=10e-6, bandwidth_bytes_per_second=50e9)
    network = Network(inside=inside, between=between, devices_per_node=8)

    def on_rank(comm: Comm, way: str) -> None:
        enter, leave = (gather_and_scatter if way == "sequence" else f_and_g)(comm)
        h, t = model.hidden_size, comm.size

        def times(x: Tensor, rows: int) -> Tensor:
            how = {"device": "meta", "dtype": torch.bfloat16, "requires_grad": True}
            return x @ torch.empty(rows, x.shape[-1], **how).T

        num_tokens = 8192 // (t if way == "sequence" else 1)
        x = torch.empty(num_tokens, h, device="meta", dtype=torch.bfloat16, requires_grad=True)
        entered = enter(x)
        q, k, v = (times(entered, rows // t) for rows in (h, h // 4, h // 4))
        z = x + leave(times(q + (k + v).repeat(1, 4), h))
        entered = enter(z)
        gate, up = (times(entered, model.ffn_size // t) for _ in range(2))
        z = z + leave(times(gate * up, h))
        z.backward(torch.empty_like(z))

    def seconds_of(way: str) -> list[float]:
        clusters = [VirtualCluster(t, network=network, flops_per_second=600e12) for t in ranks]
        return [each.run(on_rank, way).step_seconds for each in clusters]

    seconds = seconds_of("tensor")
    assert [round(1e3 * each, 3) for each in seconds] == [17.867, 9.645, 5.593, 3.688, 12.383]
    assert seconds_of("sequence") == pytest.approx(seconds, rel=1e-12)  # half a sum, twice
    drawn = layer_milliseconds(8192, 400, 50)
    assert [sum(drawn[t]) for t in ranks] == pytest.approx([1e3 * each for each in seconds])
