"""A rank without the others: its calls change nothing, take no memory, and are checked as usual."""

import pytest
import torch

from course_utils.distributed import NullComm
from course_utils.instruments import trace_memory

CALLS = {
    "all_reduce": lambda comm, x, **how: comm.all_reduce(x, **how),
    "broadcast": lambda comm, x, **how: comm.broadcast(x, 1, **how),
    "all_gather": lambda comm, x, **how: comm.all_gather(x, x[:2].clone(), **how),
    "reduce_scatter": lambda comm, x, **how: comm.reduce_scatter(x[:2], x.clone(), **how),
    "send": lambda comm, x, **how: comm.send(x, 1, **how),
    "receive": lambda comm, x, **how: comm.receive(x, 1, **how),
}


@pytest.mark.parametrize("name", CALLS)
def test_calls_return_and_leave_tensors_unchanged(name):
    comm, x = NullComm(), torch.arange(4.0)
    assert CALLS[name](comm, x) is None
    handle = CALLS[name](comm, x, async_op=True)
    assert handle.wait() is None
    assert x.tolist() == [0, 1, 2, 3]
    comm.barrier()


def test_it_is_the_first_of_two():
    comm = NullComm()
    assert (comm.rank, comm.size) == (0, 2)
    assert repr(comm) == "NullComm: rank 0 of 2"


# One tensor of 400 bytes is made, and no copy of it to send.
def test_a_trace_sees_only_what_the_function_itself_allocates():
    def step():
        gradient = torch.ones(100)
        NullComm().all_reduce(gradient)
        return gradient

    assert trace_memory(step).peak_bytes == 400


def test_bad_input_is_refused_as_by_every_comm():
    comm = NullComm()
    with pytest.raises(TypeError, match="all_reduce wants tensors, got int"):
        comm.all_reduce(3)
    with pytest.raises(TypeError, match="broadcast wants tensors, got None"):
        comm.broadcast(None, 1)
    with pytest.raises(TypeError, match="send wants tensors, got None"):
        comm.send(None, 1)
    with pytest.raises(TypeError, match="all_gather wants tensors, got None"):
        comm.all_gather(None, torch.ones(2))
    with pytest.raises(ValueError, match=r"shape \(2, 2\) is not contiguous"):
        comm.all_reduce(torch.ones(2, 2).T)
    with pytest.raises(ValueError, match="there are ranks 0 to 1, got 2"):
        comm.send(torch.ones(1), 2)
    with pytest.raises(ValueError, match="nobody answers a rank that is alone"):
        comm.split(0)


def test_it_is_any_rank_of_any_number():
    comm = NullComm(size=4, rank=3)
    assert (comm.rank, comm.size) == (3, 4)
    whole = torch.zeros(8)
    comm.all_gather(whole, torch.ones(2))
    with pytest.raises(ValueError, match="4 times as many elements"):
        comm.all_gather(whole, torch.ones(4))


def test_what_cannot_be_is_refused():
    with pytest.raises(ValueError, match="rank must be from 0 to 1, got 2"):
        NullComm(size=2, rank=2)
