"""Ranks on a virtual clock: results, random numbers, and times checked by hand."""

import random
import threading

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from course_utils.distributed import (
    ClusterRun,
    Comm,
    Link,
    Network,
    NullComm,
    RankError,
    VirtualCluster,
)
from course_utils.instruments import count_flops, fake_tensors
from course_utils.instruments.randomness import seed_generators
from course_utils.reference import Transformer, token_loss
from course_utils.reference.bucketing import backward_in_buckets
from tests.random_models import KINDS, random_model

# Each message takes one second and each byte another, and a device does one FLOP per second.
UNIT = Network(inside=Link(latency_seconds=1.0, bandwidth_bytes_per_second=1.0))


def cluster(num_ranks: int, network: Network = UNIT, **others) -> VirtualCluster:
    return VirtualCluster(num_ranks, network=network, flops_per_second=1.0, **others)


def compute(flops: int) -> None:
    """One product of a row and a column: two FLOPs for each element."""
    assert flops % 2 == 0
    torch.ones(1, flops // 2) @ torch.ones(flops // 2, 1)


# By hand, for three ranks r that start with (r, 10 r).
def test_results_of_all_calls():
    def step(comm: Comm) -> list[list[float]]:
        mine = torch.tensor([1.0, 10.0]) * comm.rank
        total, first, one, gathered, part = (
            *(mine.clone(), mine + 1, mine[:1].clone()),
            *(torch.zeros(3, 2), torch.zeros(1)),
        )
        comm.all_reduce(total)
        comm.broadcast(first, 2)
        comm.all_gather(gathered, mine)
        comm.reduce_scatter(part, gathered.flatten()[:3] + comm.rank)
        left, right = (comm.rank - 1) % 3, (comm.rank + 1) % 3
        coming = comm.receive(one, left, async_op=True)
        comm.send(mine[1:], right)
        coming.wait()
        comm.barrier()
        return [each.flatten().tolist() for each in (total, first, gathered, part, one)]

    results = cluster(3).run(step).results
    for rank, (total, first, gathered, part, one) in enumerate(results):
        assert total == [3, 30]
        assert first == [3, 21]
        assert gathered == [0, 0, 1, 10, 2, 20]
        assert part == [[3, 3, 6][rank]]  # three times (0, 0, 1), and 0 + 1 + 2
        assert one == [10 * ((rank - 1) % 3)]


def test_compute_can_be_charged_and_heard():
    heard = []

    def step(comm: Comm) -> None:
        comm.on_compute(lambda *what: heard.append(what))
        compute(4)
        comm.compute(3.0, "backward")

    run = cluster(1).run(step)
    assert heard == [(4.0, "forward"), (3.0, "backward")]
    assert run.spans(0, "compute", "backward") == [(4, 7)]


def test_compute_can_be_named():
    def step(comm: Comm) -> None:
        with comm.named("F0"):
            compute(4)
            compute(2)
        with comm.named("B0"):
            compute(2)
        compute(2)

    run = cluster(1).run(step)
    assert [each[2:5] for each in run.of(0)] == [("F0", 0, 6), ("B0", 6, 8), ("forward", 8, 10)]
    NullComm().named("F0").__enter__()


@pytest.mark.parametrize("seconds", [-1.0, float("nan"), float("inf")])
def test_only_time_that_passes_can_be_charged(seconds):
    with pytest.raises(RankError, match="must be zero or above") as error:
        cluster(1).run(lambda comm: comm.compute(seconds))
    assert isinstance(error.value.__cause__, ValueError)


# By hand, with UNIT: an all-reduce of 4 bytes among two ranks takes 2 s for messages and 4 for
# bytes. Rank 0 computes for 10 s and rank 1 for 4, so the collective starts at 10 and ends at 16.
def test_a_collective_starts_when_the_last_rank_has_called():
    def step(comm: Comm) -> None:
        compute(10 if comm.rank == 0 else 4)
        comm.all_reduce(torch.ones(1))

    run = cluster(2).run(step)
    assert [tuple(event)[1:6] for event in run.of(0)] == [
        ("compute", "forward", 0, 10, 0),
        ("communication", "all_reduce #0", 10, 16, 4),
        ("wait", "all_reduce #0", 10, 16, 0),
    ]
    assert [tuple(event)[1:6] for event in run.of(1)] == [
        ("compute", "forward", 0, 4, 0),
        ("communication", "all_reduce #0", 10, 16, 4),
        ("wait", "all_reduce #0", 4, 16, 0),
    ]
    assert run.step_seconds == 16
    assert [run.compute_seconds(rank) for rank in (0, 1)] == [10, 4]
    assert [run.exposed_seconds(rank) for rank in (0, 1)] == [6, 6]
    assert [run.idle_seconds(rank) for rank in (0, 1)] == [0, 6]
    assert run.spans(1, "communication") == [(10, 16)]
    assert repr(run) == (
        "ClusterRun: 16,000.00 ms on 2 ranks; rank 0 communicates 1 times, 4 bytes; exposed "
        "communication 6,000.00 ms"
    )


# By hand: compute 0-2, all-reduce 2-8, overlapped by compute 2-6, so two seconds are exposed. The
# second all-reduce waits for the links until 8 and ends at 14, overlapped by compute 8-20.
def test_async_calls_overlap_compute_but_not_each_other():
    def step(comm: Comm) -> None:
        compute(2)
        first = comm.all_reduce(torch.ones(1), async_op=True)
        second = comm.all_reduce(torch.ones(1), async_op=True)
        compute(4)
        first.wait()
        compute(12)
        second.wait()
        second.wait()  # a second time is allowed

    run = cluster(2).run(step)
    for rank in (0, 1):
        assert [tuple(event)[1:5] for event in run.of(rank)] == [
            ("compute", "forward", 0, 2),
            ("communication", "all_reduce #0", 2, 8),
            ("communication", "all_reduce #1", 8, 14),
            ("compute", "forward", 2, 6),
            ("wait", "all_reduce #0", 6, 8),
            ("compute", "forward", 8, 20),
            ("wait", "all_reduce #1", 20, 20),
        ]
        assert run.exposed_spans(rank) == [(6, 8)]
        assert run.communication_seconds(rank) == 12
        assert run.idle_spans(rank) == []


def fan_out(comm: Comm) -> None:
    if comm.rank:
        comm.receive(torch.ones(1), 0)
    else:
        for handle in [comm.send(torch.ones(1), to, async_op=True) for to in (1, 2)]:
            handle.wait()


# By hand: four bytes take 5 s. All send to the right at once, since a rank sends and receives on
# different lanes; two messages of one rank follow each other.
def test_messages_overlap_on_different_lanes_and_queue_on_one():
    def ring(comm: Comm) -> None:
        coming = comm.receive(torch.ones(1), (comm.rank - 1) % comm.size, async_op=True)
        comm.send(torch.ones(1), (comm.rank + 1) % comm.size)
        coming.wait()

    assert cluster(4).run(ring).step_seconds == 5
    assert cluster(3).run(fan_out).step_seconds == 10


# By hand: each of four ranks sends for 5 s to each other rank, one at a time, so 15 s at least. All
# calls are made at time zero, by rank 0 before rank 1; a rank that calls first must not take lanes
# at times when another could send.
def test_messages_start_in_order_of_time_whatever_the_order_of_calls():
    def all_to_all(comm: Comm) -> None:
        distances = range(1, comm.size)
        sources = [(comm.rank - each) % comm.size for each in distances]
        targets = [(comm.rank + each) % comm.size for each in distances]
        handles = [comm.send(torch.ones(1), to, async_op=True) for to in targets]
        handles += [comm.receive(torch.ones(1), each, async_op=True) for each in sources]
        for handle in handles:
            handle.wait()

    def late_first(comm: Comm) -> None:
        """Rank 0 makes both calls before rank 1 makes any; the first message waits for rank 1."""
        compute((0, 100, 2)[comm.rank])
        fan_out(comm)

    assert cluster(4).run(all_to_all).step_seconds == 15
    run = cluster(3).run(late_first)
    assert run.spans(0, "communication") == [(2, 7), (100, 105)]


# Two nodes of two: 4 bytes among two ranks take 2 + 4 s inside, and between nodes 2 * 100 + 8.
def test_groups_and_the_links_between_nodes():
    slow = Link(latency_seconds=100.0, bandwidth_bytes_per_second=0.5)
    network = Network(inside=UNIT.inside, between=slow, devices_per_node=2)

    def step(comm: Comm) -> tuple[float, float, int]:
        node, rail = comm.split(comm.rank // 2), comm.split(comm.rank % 2)
        x = torch.tensor([float(10**comm.rank)])
        node.all_reduce(x)
        inside = x.item()
        rail.all_reduce(x)
        return inside, x.item(), 10 * rail.size + rail.rank

    run = cluster(4, network).run(step)
    assert run.results == [(11, 1111, 20), (11, 1111, 20), (1100, 1111, 21), (1100, 1111, 21)]
    assert run.step_seconds == 6 + 208
    assert [each.name for each in run.communications(3)] == [
        "all_reduce #0 among ranks 2, 3",
        "all_reduce #0 among ranks 1, 3",
    ]


def test_ranks_of_a_group_are_numbered_within_it():
    def step(comm: Comm) -> list[float]:
        group, x = comm.split(comm.rank % 2), torch.tensor([float(comm.rank)])
        group.broadcast(x, 1)
        y = torch.zeros(1)
        if group.rank == 0:
            group.send(x + 1, 1)
        else:
            group.receive(y, 0)
        return [x.item(), y.item()]

    assert cluster(4).run(step).results == [[2, 0], [3, 0], [2, 3], [3, 4]]


@pytest.mark.parametrize("kind", KINDS)
def test_compute_is_what_the_counter_counts(kind):
    def call() -> torch.Tensor:
        model, ids = Transformer(random_model(kind, 3)), torch.zeros(2, 16, dtype=torch.long)
        return token_loss(model(ids), ids)

    run = cluster(1).run(lambda comm: call().backward())
    forward, backward = (
        sum(end - start for start, end in run.spans(0, "compute", name))
        for name in ("forward", "backward")
    )
    assert (forward, backward) == count_flops(call)


def test_compute_without_autograd_and_on_fake_tensors():
    layer, x = nn.Linear(3, 5), torch.ones(2, 3)

    def step(comm: Comm) -> None:
        with torch.inference_mode():
            layer(x)

    def on_fake(comm: Comm) -> None:
        with fake_tensors():
            nn.Linear(3, 5)(torch.ones(2, 3))

    assert cluster(1).run(step).step_seconds == cluster(1).run(on_fake).step_seconds == 60


def test_recomputation_takes_time():
    def step(comm: Comm, recompute: bool) -> None:
        layer = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
        x = torch.ones(2, 4, requires_grad=True)
        y = checkpoint(layer, x, use_reentrant=False) if recompute else layer(x)
        y.sum().backward()

    # two products of 2 * 2 * 4 * 4, three times each; only the first is recomputed
    assert [cluster(1).run(step, flag).step_seconds for flag in (False, True)] == [384, 448]


def two_layers() -> nn.Sequential:
    return nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)).double()


def batches(rank: int) -> torch.Tensor:
    return torch.arange(12.0, dtype=torch.float64).view(4, 3) * (-1) ** rank + rank


def averaged(comm: Comm, model: nn.Module) -> dict[str, torch.Tensor]:
    """Gradients averaged by hooks during the backward pass, each on its own."""
    loss = model(batches(comm.rank)).square().sum() / comm.size
    backward_in_buckets(comm, model, loss, bucket_bytes=1)
    return {name: parameter.grad for name, parameter in model.named_parameters()}


def test_hooks_average_gradients_as_one_rank_would():
    model = two_layers()
    run = cluster(3).run(averaged, model)
    (sum(model(batches(rank)).square().sum() for rank in range(3)) / 3).backward()
    for name, parameter in model.named_parameters():
        for gradients in run.results:
            torch.testing.assert_close(gradients[name], parameter.grad)
            assert torch.equal(gradients[name], run.results[0][name])
    # a bias's gradient is ready before its weight's, and the last layer's before the first's
    assert [each.num_bytes for each in run.communications(2)] == [16, 64, 32, 96]
    waits = [index for index, each in enumerate(run.of(1)) if each.kind == "wait"]
    assert waits[0] > max(index for index, each in enumerate(run.of(1)) if each.name == "backward")


def test_each_rank_gets_copies_of_the_arguments():
    model = two_layers()
    results = cluster(2).run(averaged, model).results
    assert model[0].weight.grad is None
    assert results[0]["0.weight"] is not results[1]["0.weight"]


# In bf16, 256 + 1 is 256, so it matters whether the 256 comes first or last in the sum.
def test_sums_are_made_in_the_order_of_ranks():
    def step(comm: Comm, large_at: int) -> float:
        if comm.rank == 0:
            comm.receive(torch.zeros(1), comm.size - 1)  # rank 0 is the last to call
        if comm.rank == comm.size - 1:
            comm.send(torch.zeros(1), 0)
        x = torch.tensor([256.0 if comm.rank == large_at else 1.0], dtype=torch.bfloat16)
        comm.all_reduce(x)
        return x.item()

    assert cluster(5).run(step, 0).results == 5 * [256]
    assert cluster(5).run(step, 4).results == 5 * [260]


def drawn() -> list[float]:
    dropped = nn.functional.dropout(torch.ones(64), 0.5)
    return [*dropped.tolist(), random.random(), np.random.rand()]


def drawing(comm: Comm) -> list[float]:
    before = drawn()
    comm.barrier()  # others run
    return before + drawn()


def test_random_numbers_differ_between_ranks_and_repeat():
    first, second = (cluster(3, seed=7).run(drawing).results for _ in range(2))
    assert first == second
    assert all(one != other for one, other in zip(first[0][-2:], first[1][-2:], strict=True))
    assert first[0][:64] != first[1][:64]
    # as if each ran alone
    assert first[1] == cluster(1, seed=8).run(drawing).results[0]


def test_two_runs_are_the_same():
    def step(comm: Comm) -> torch.Tensor:
        model = Transformer(random_model("grouped", 1))
        for parameter in model.parameters():
            parameter.register_post_accumulate_grad_hook(lambda p: comm.all_reduce(p.grad))
        ids = torch.randint(4, (2, 8))
        loss = token_loss(model(ids), ids)
        loss.backward()
        return loss.detach()

    runs: list[ClusterRun] = [VirtualCluster(3).run(step) for _ in range(2)]
    assert runs[0].events == runs[1].events
    assert [each.item() for each in runs[0].results] == [each.item() for each in runs[1].results]
    assert len({each.item() for each in runs[0].results}) == 3


def test_nothing_is_left_behind():
    def step(comm: Comm) -> None:
        torch.set_default_dtype(torch.float64)
        torch.use_deterministic_algorithms(True, warn_only=True)
        torch.set_grad_enabled(False)
        seed_generators(5)
        comm.barrier()

    seed_generators(1)
    np.random.randn()  # of which NumPy keeps a second one
    torch.set_num_threads(2)
    expected = torch.rand(1), random.random(), np.random.randn(), np.random.randn()
    seed_generators(1)
    np.random.randn()
    try:
        cluster(3).run(step)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)
    assert (torch.rand(1), random.random(), np.random.randn(), np.random.randn()) == expected
    assert torch.get_default_dtype() == torch.float32
    assert torch.is_grad_enabled()
    assert not torch.are_deterministic_algorithms_enabled()
    assert not torch.is_deterministic_algorithms_warn_only_enabled()
    assert [thread for thread in threading.enumerate() if thread.name.startswith("rank")] == []


def test_one_rank_alone_pays_nothing():
    run = cluster(1).run(lambda comm: comm.all_reduce(torch.ones(3)))
    assert run.step_seconds == 0
    assert len(run.communications()) == 1
    assert cluster(2).run(lambda comm: None).step_seconds == 0


def test_a_call_leaves_the_rest_of_its_buffer_free_to_write():
    """A shared buffer: one part is in flight while the other is written."""

    def step(comm: Comm) -> list[float]:
        buffer = torch.ones(4) * comm.rank
        handle = comm.all_reduce(buffer[:2], async_op=True)
        buffer[2:] += 5
        before = buffer.tolist()
        handle.wait()
        return [*before, *buffer.tolist()]

    results = cluster(2).run(step).results
    assert results == [[0, 0, 5, 5, 1, 1, 5, 5], [1, 1, 6, 6, 1, 1, 6, 6]]


def test_on_the_meta_device_only_sizes_are_sent():
    def step(comm: Comm) -> torch.Tensor:
        x = torch.empty(10**12, dtype=torch.bfloat16, device="meta")
        comm.all_reduce(x)
        return x

    run = cluster(2).run(step)
    assert run.communications()[0].num_bytes == 2 * 10**12
    assert run.step_seconds == 2 + 2 * 10**12
