"""Gradients of several ranks against one, and the ring against the cluster's all-reduce."""

import pytest
import torch
from torch import nn

from course_utils.distributed import Comm, Link, Network, VirtualCluster, run_ranks
from course_utils.reference.gradient_sync import backward_each, backward_flat, share_of_mean
from course_utils.reference.ring import ring_all_reduce

NETWORK = Network(inside=Link(latency_seconds=1e-6, bandwidth_bytes_per_second=1e6))


def summed_on_a_ring(comm: Comm, num_elements: int) -> torch.Tensor:
    tensor = torch.arange(num_elements) * (comm.rank + 1)
    ring_all_reduce(comm, tensor)
    return tensor


@pytest.mark.parametrize("num_ranks", [1, 2, 3, 5])
@pytest.mark.parametrize("num_elements", [1, 6, 7, 30])
def test_ring_sums(num_ranks, num_elements):
    expected = torch.arange(num_elements) * sum(range(1, num_ranks + 1))
    for got in VirtualCluster(num_ranks).run(summed_on_a_ring, num_elements).results:
        assert torch.equal(got, expected)


@pytest.mark.parametrize("num_ranks", [2, 3, 4, 6])
def test_ring_takes_the_time_of_an_all_reduce(num_ranks):
    """A part of 10 numbers on each rank: 2 (d-1) steps of 1 µs and 80 bytes at 1 MB/s."""
    run = VirtualCluster(num_ranks, network=NETWORK).run(summed_on_a_ring, 10 * num_ranks)
    assert run.step_seconds == pytest.approx(2 * (num_ranks - 1) * 81e-6)
    ranks = range(num_ranks)
    expected = NETWORK.seconds("all_reduce", 80 * num_ranks, ranks)
    assert run.step_seconds == pytest.approx(expected)


def test_ring_on_real_processes():
    """Two numbers on three ranks: one part is empty."""
    for got in run_ranks(summed_on_a_ring, 3, 2):
        assert got.tolist() == [0, 6]


@pytest.mark.parametrize("backward", [backward_each, backward_flat])
def test_gradient_of_a_batch_with_unequal_shares(backward):
    """Three ranks with 2, 0 and 3 rows; the loss of each row is a target's."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)).double()
    rows = torch.randn(5, 3, dtype=torch.float64)
    parts = rows.split([2, 0, 3])

    def rank(comm: Comm, model: nn.Module) -> list[torch.Tensor]:
        mine = parts[comm.rank]
        backward(comm, model, share_of_mean(comm, model(mine).square().sum(), len(mine)))
        return [each.grad for each in model.parameters()]

    results = VirtualCluster(3).run(rank, model).results
    model(rows).square().mean().backward()
    for gradients in results:
        for got, parameter in zip(gradients, model.parameters(), strict=True):
            torch.testing.assert_close(got, parameter.grad)
