"""Steps that fail on two ranks, as students write them, and what is said on any kind of ranks."""

import torch

from course_utils.distributed import Comm, CommError, DeadlockError, MismatchError


def skips(comm: Comm) -> None:
    if comm.rank != 1:
        comm.all_reduce(torch.ones(64, 64))


def all_receive_first(comm: Comm) -> None:
    comm.receive(torch.ones(2), 1 - comm.rank)


def all_send_first(comm: Comm) -> None:
    comm.send(torch.ones(2), 1 - comm.rank)


def other_shape(comm: Comm) -> None:
    comm.barrier()
    comm.all_reduce(torch.ones(3 + comm.rank))


def other_dtype(comm: Comm) -> None:
    """Equal sizes in bytes, so that gloo goes through and gives nonsense."""
    comm.all_reduce(torch.ones(3, dtype=torch.int32 if comm.rank else torch.float32))


def other_order(comm: Comm) -> None:
    pair = [torch.ones(300), torch.ones(5)]
    for x in pair if comm.rank == 0 else reversed(pair):
        comm.all_reduce(x)


def does_not_wait(comm: Comm) -> None:
    comm.all_reduce(torch.ones(3), async_op=True)


FAILURES = [
    (
        skips,
        DeadlockError,
        "rank 0 waits in all_reduce #0 of (64, 64) float32; rank 1 has returned",
    ),
    (all_receive_first, DeadlockError, "rank 1 waits in receive #0 of (2,) float32 from rank 0"),
    (all_send_first, DeadlockError, "rank 0 waits in send #0 of (2,) float32 to rank 1"),
    (
        other_shape,
        MismatchError,
        "mismatch in collective #1: rank 0 calls all_reduce of (3,) float32, and rank 1 "
        "all_reduce of (4,) float32",
    ),
    (other_dtype, MismatchError, "of (3,) float32, and rank 1 all_reduce of (3,) int32"),
    (other_order, MismatchError, "of (300,) float32, and rank 1 all_reduce of (5,) float32"),
    (does_not_wait, CommError, "returned and did not wait for all_reduce #0 of (3,) float32"),
]
