"""Bytes that a rank sends, by hand and against an all-reduce built from messages."""

import pytest
import torch
from torch import Tensor

from course_utils.distributed import Comm, VirtualCluster
from course_utils.reference.ring import ring_all_reduce


def sums(comm: Comm, elements: int, is_ring: bool) -> Tensor:
    tensor = torch.arange(elements, dtype=torch.float64) + comm.rank
    ring_all_reduce(comm, tensor) if is_ring else comm.all_reduce(tensor)
    return tensor


@pytest.mark.parametrize("num_ranks", [1, 2, 3, 5])
@pytest.mark.parametrize("elements", [1, 3, 5, 12, 17])
def test_an_all_reduce_sends_what_its_messages_do(num_ranks, elements):
    in_one, in_messages = (
        VirtualCluster(num_ranks).run(sums, elements, is_ring) for is_ring in (False, True)
    )
    for rank in range(num_ranks):
        assert torch.equal(in_one.results[rank], in_messages.results[rank])
        messages = sum(each.num_bytes for each in in_messages.sent_by(rank))
        assert in_one.sent_bytes(rank) == in_messages.sent_bytes(rank) == messages


# 24 float64 numbers, 192 bytes, on four ranks: 2 * 3/4 * 192, 3/4 * 192, 3/4 * 192.
def test_sent_bytes_by_hand():
    def step(comm: Comm) -> None:
        whole, part = torch.zeros(24).double(), torch.zeros(6).double()
        comm.all_reduce(whole)
        comm.all_gather(whole, part)
        comm.reduce_scatter(part, whole)
        comm.broadcast(part, 1)  # 48 bytes pass ranks 1, 2, 3 and end on 0
        comm.split(comm.rank // 2).all_reduce(part)  # 48, among two
        if comm.rank == 0:
            comm.send(part, 3)
        if comm.rank == 3:
            comm.receive(part, 0)
        comm.barrier()

    run = VirtualCluster(4).run(step)
    of_all = 288 + 144 + 144 + 48
    assert [run.sent_bytes(rank) for rank in range(4)] == [of_all + 48, *3 * [of_all + 48]]


def test_nothing_is_sent_of_an_empty_tensor():
    run = VirtualCluster(3).run(lambda comm: comm.all_reduce(torch.zeros(0, 4)))
    assert run.sent_bytes(1) == 0
