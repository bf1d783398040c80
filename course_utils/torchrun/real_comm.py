"""This process as a rank that counts the bytes it sends, with a group for each direction.

NCCL works off the messages between two ranks in the order of the calls: two ranks that both send
first, and receive afterwards in the same group, wait for each other for ever. It connects the ranks
of a group at its first call, which waits for all of them: so all connections are made beforehand.

Sources: pytorch/pytorch issues 109401 (messages both ways between two ranks) and 108378 (the first
call of a group waits for the others).
"""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from course_utils.distributed.call_log import CallLog
from course_utils.distributed.call_matching import MESSAGES, Call, Group
from course_utils.distributed.sent_bytes import ring_sent_bytes
from course_utils.distributed.torch_comm import TorchComm


class RealComm(TorchComm):
    """This process's connection to the other ranks.

    Attributes:
        device: Where this rank's tensors belong.
        sent_bytes: Bytes sent to other ranks so far, counted as in a ring.
    """

    def __init__(self, device: str) -> None:
        """Connect each rank with the next one and the one before; all ranks must call it."""
        rank, size = dist.get_rank(), dist.get_world_size()
        super().__init__(CallLog(rank), Group(tuple(range(size))))
        self.device, self.sent_bytes = device, 0
        self._channels: dict[tuple[int, int], Any] = {}
        ring = [(each, (each + 1) % size) for each in range(size)] if size > 1 else []
        token = torch.zeros(1, device=device)
        for source, to in dict.fromkeys([*ring, *((to, source) for source, to in ring)]):
            channel = self._channels[source, to] = dist.new_group([source, to])
            if rank == source:
                dist.send(token, dst=to, group=channel)
            elif rank == to:
                dist.recv(token, src=source, group=channel)

    def gathered(self, *numbers: float) -> list[list[float]]:
        """These numbers of all ranks."""
        mine = torch.tensor(numbers, dtype=torch.float64, device=self.device)
        of_all = mine.new_empty(self.size, len(mine))
        self.all_gather(of_all, mine)
        rows: list[list[float]] = of_all.tolist()
        return rows

    def _start_work(self, call: Call, tensor: Tensor | None, output: Tensor | None) -> Any:
        self.sent_bytes += ring_sent_bytes(call, range(self.size), self.rank)
        if call.kind not in MESSAGES:
            return super()._start_work(call, tensor, output)
        assert tensor is not None and call.peer is not None
        if call.kind == "send":
            channel = self._channels.get((self.rank, call.peer))
            return dist.isend(tensor, dst=call.peer, group=channel)
        channel = self._channels.get((call.peer, self.rank))
        return dist.irecv(tensor, src=call.peer, group=channel)
