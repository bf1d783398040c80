"""Memory of a rank inside a run: of that rank alone, as if it were traced by itself."""

import gc

import pytest
import torch
from torch import nn

from course_utils.distributed import Comm, NullComm, RankError, VirtualCluster
from course_utils.instruments import MemoryTrace, trace_memory

WIDTH, NUM_RANKS = 32, 4
WHOLE_BYTES = 4 * WIDTH**2


class Sharded(torch.autograd.Function):
    """A product with a gathered weight; what becomes of it differs."""

    @staticmethod
    def forward(ctx, comm, x, shard, way):
        whole = x.new_empty(WIDTH, WIDTH)
        comm.all_gather(whole, shard)
        ctx.save_for_backward(x, whole if way == "kept" else shard)
        ctx.comm, ctx.way = comm, way
        return x @ whole.T

    @staticmethod
    def backward(ctx, g):
        x, whole = ctx.saved_tensors
        if ctx.way != "kept":
            whole, shard = g.new_empty(WIDTH, WIDTH), whole
            ctx.comm.all_gather(whole, shard)
        of_x = g @ whole
        if ctx.way == "right":
            del whole
        part = x.new_empty(WIDTH**2 // ctx.comm.size)
        ctx.comm.reduce_scatter(part, g.T @ x)
        return None, of_x, part, None


def traced(comm: Comm, way: str) -> MemoryTrace:
    shards = [torch.ones(WIDTH**2 // comm.size, requires_grad=True) for _ in range(6)]

    def step() -> None:
        y = torch.ones(3, WIDTH)
        for shard in shards:
            y = torch.tanh(Sharded.apply(comm, y, shard, way))
        y.sum().backward()

    return trace_memory(step, *shards)


@pytest.mark.parametrize(("way", "alive"), [("right", 1), ("late", 2), ("kept", 7)])
def test_whole_weights_alive_on_each_rank_are_those_of_a_rank_alone(way, alive):
    alone = traced(NullComm(NUM_RANKS), way)
    assert alone.most_alive(WHOLE_BYTES) == alive
    for trace in VirtualCluster(NUM_RANKS).run(traced, way).results:
        assert trace.most_alive(WHOLE_BYTES) == alive
        assert trace.total_bytes == alone.total_bytes


def test_a_transfer_lets_go_of_the_tensors_of_a_rank_that_has_waited():
    def step(comm: Comm) -> int:
        part = torch.ones(4)
        whole = torch.empty(4 * comm.size)
        handle = comm.all_gather(whole, part, async_op=True)
        handle.wait()
        storages = [each.untyped_storage()._weak_ref() for each in (part, whole)]
        del part, whole
        return sum(not torch.UntypedStorage._expired(each) for each in storages)

    assert VirtualCluster(3).run(step).results == [0, 0, 0]


def test_an_optimizer_of_another_rank_is_not_seen():
    def step(comm: Comm, model: nn.Module) -> MemoryTrace:
        optimizer = torch.optim.Adam(model.parameters())

        def train() -> None:
            loss = model(torch.ones(2, 3)).sum()
            if comm.rank == 0:
                comm.barrier()  # the other rank steps meanwhile
            loss.backward()
            optimizer.step()
            if comm.rank == 1:
                comm.barrier()

        return trace_memory(train, model, optimizer)

    traces = VirtualCluster(2).run(step, nn.Linear(3, 5)).results
    assert [each.live_bytes["optimizer_states"][-1] for each in traces] == [2 * (80 + 4)] * 2
    assert gc.isenabled()


def test_two_traces_of_one_rank_are_refused():
    def step(comm: Comm) -> None:
        trace_memory(lambda: trace_memory(lambda: torch.ones(1)))

    with pytest.raises(RankError, match="trace_memory cannot run inside trace_memory"):
        VirtualCluster(2).run(step)


def test_a_run_inside_a_trace_is_refused():
    with pytest.raises(ValueError, match=r"VirtualCluster.run cannot run inside trace_memory"):
        trace_memory(lambda: VirtualCluster(2).run(lambda comm: None))
