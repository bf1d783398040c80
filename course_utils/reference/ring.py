"""Ring collectives, built from messages between neighbours.

The tensor is split into one part per rank. In the first round each part travels around the ring and
is summed on the way (reduce-scatter); in the second the sums travel around (all-gather). Each round
is a collective of its own.

Source: Thakur, Rabenseifner and Gropp 2005, Optimization of Collective Communication Operations in
MPICH, section 4.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from course_utils.distributed.comm import Comm


def ring_all_reduce(comm: Comm, tensor: Tensor) -> None:
    """Sum over all ranks, in place: each sends 2 (d-1) messages of a d-th of the tensor."""
    parts = tensor.flatten().tensor_split(comm.size)
    for step in range(comm.size - 1):
        mine, theirs = _exchange(comm, parts, comm.rank - step)
        mine += theirs
    for step in range(comm.size - 1):
        mine, theirs = _exchange(comm, parts, comm.rank + 1 - step)
        mine.copy_(theirs)


def _exchange(comm: Comm, parts: Sequence[Tensor], part: int) -> tuple[Tensor, Tensor]:
    """Send a part to the next rank; return the part before it, and what arrives for it."""
    mine = parts[(part - 1) % comm.size]
    theirs = torch.empty_like(mine)
    handle = comm.send(parts[part % comm.size], (comm.rank + 1) % comm.size, async_op=True)
    comm.receive(theirs, (comm.rank - 1) % comm.size)
    handle.wait()
    return mine, theirs
