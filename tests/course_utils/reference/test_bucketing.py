"""Buckets give the gradients of the whole batch, in messages that can be counted by hand."""

import pytest
import torch
from torch import nn

from course_utils.distributed import VirtualCluster, run_ranks
from course_utils.reference.bucketing import (
    accumulate_together,
    backward_in_buckets,
    make_buckets,
    start_equal,
)


def model() -> nn.Sequential:
    """Matrices of 10, 15 and 6 numbers: 80, 120 and 48 bytes."""
    torch.manual_seed(0)
    sizes = ((2, 5), (5, 3), (3, 2))
    layers = (nn.Linear(*size, bias=False, dtype=torch.float64) for size in sizes)
    return nn.Sequential(*layers)


def share(net, comm, micro_batch=0):
    rows = torch.arange(24.0, dtype=torch.float64).reshape(2, 6, 2)[micro_batch] / 10
    return net(rows.tensor_split(comm.size)[comm.rank]).square().sum()


def whole(num_micro_batches=1):
    class OnlyRank:
        rank, size = 0, 1

    net = model()
    for number in range(num_micro_batches):
        share(net, OnlyRank(), number).backward()
    return [each.grad for each in net.parameters()]


def assert_all_have(results, gradients):
    for ours in results:
        for mine, theirs in zip(ours, gradients, strict=True):
            torch.testing.assert_close(mine, theirs)


def step(comm, bucket_bytes):
    net = model()
    backward_in_buckets(comm, net, share(net, comm), bucket_bytes)
    return [each.grad for each in net.parameters()]


# Gradients are ready in the order 48, 120, 80: up to 48 each is sent alone, from 49 on the first
# waits for the second.
@pytest.mark.parametrize(
    ("bucket_bytes", "sizes"),
    [(1, [48, 120, 80]), (48, [48, 120, 80]), (49, [168, 80]), (169, [248]), (1000, [248])],
)
def test_buckets_and_their_sums(bucket_bytes, sizes):
    run = VirtualCluster(3).run(step, bucket_bytes)
    assert [event.num_bytes for event in run.communications()] == sizes
    assert_all_have(run.results, whole())


def test_real_processes_agree():
    assert_all_have(run_ranks(step, 2, 49), whole())


def test_micro_batches_are_exchanged_once():
    def several(comm):
        net = model()
        micro_batches = [lambda n=n: share(net, comm, n) for n in range(2)]
        accumulate_together(comm, net, micro_batches, lambda *given: backward_in_buckets(*given, 1))
        return [each.grad for each in net.parameters()]

    run = VirtualCluster(2).run(several)
    assert len(run.communications()) == 3
    assert_all_have(run.results, whole(2))


# 48 and 120 bytes together exceed 49: buckets of 168 and 80 bytes, which backward fills.
def test_gradients_that_live_in_buckets():
    net, plain = model(), model()
    buckets = make_buckets(net, 49)
    assert [each.nbytes for each in buckets] == [168, 80]
    for each in (net, plain):
        each(torch.ones(1, 2, dtype=torch.float64)).sum().backward()
    gradients = [each.grad for each in plain.parameters()]
    assert_all_have([[each.grad for each in net.parameters()]], gradients)
    last_to_first = torch.cat([gradients[n].flatten() for n in (2, 1, 0)])
    torch.testing.assert_close(torch.cat(buckets), last_to_first)


def test_all_ranks_start_equal():
    def start(comm):
        net = nn.BatchNorm1d(3)
        nn.init.normal_(net.weight)
        net.running_mean += comm.rank
        start_equal(comm, net, 5)
        return [net.weight.detach(), net.running_mean], torch.rand(())

    (first, one), (second, other) = VirtualCluster(2).run(start).results
    assert_all_have([second], first)
    assert one == torch.rand((), generator=torch.Generator().manual_seed(5))
    assert other == torch.rand((), generator=torch.Generator().manual_seed(6))
