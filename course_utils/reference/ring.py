"""An all-reduce made of messages between neighbours on a ring.

The tensor is cut into as many parts as there are ranks. In the first round each part travels once
around and collects a term on each rank; in the second its sum travels around.

Source: Thakur, Rabenseifner and Gropp 2005, Optimization of Collective Communication Operations in
MPICH, section 4.
"""

import torch
from torch import Tensor

from course_utils.distributed.comm import Comm


def ring_all_reduce(comm: Comm, tensor: Tensor) -> None:
    """Sum over all ranks, in place on each: 2 (d-1) messages of a d-th of the tensor."""
    parts = tensor.flatten().tensor_split(comm.size)
    after, before = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size

    def exchange(sent: int) -> tuple[Tensor, Tensor]:
        """This rank's part that comes next, and what its neighbour sends for it."""
        mine = parts[(sent - 1) % comm.size]
        theirs = torch.empty_like(mine)
        handle = comm.send(parts[sent % comm.size], after, async_op=True)
        comm.receive(theirs, before)
        handle.wait()
        return mine, theirs

    for step in range(comm.size - 1):
        mine, theirs = exchange(comm.rank - step)
        mine += theirs
    for step in range(comm.size - 1):
        mine, theirs = exchange(comm.rank + 1 - step)
        mine.copy_(theirs)


def everyone_to_everyone(comm: Comm, tensor: Tensor) -> None:
    """The same sum without a ring: each rank sends all of its tensor to each of the others."""
    mine, theirs = tensor.clone(), torch.empty_like(tensor)
    for distance in range(1, comm.size):
        handle = comm.send(mine, (comm.rank + distance) % comm.size, async_op=True)
        comm.receive(theirs, (comm.rank - distance) % comm.size)
        handle.wait()
        tensor += theirs
