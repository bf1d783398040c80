"""A `Comm` on `torch.distributed`: ranks that are real processes.

Source: PyTorch documentation, "Distributed communication package".
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from course_utils.distributed.call_log import CallLog
from course_utils.distributed.call_matching import BrokenCallError, Call, Group
from course_utils.distributed.comm import Comm


@dataclass(frozen=True, eq=False)
class _TorchHandle:
    """A call of `torch.distributed` in flight."""

    call_log: CallLog
    work: Any
    number: int
    call: str

    def wait(self) -> None:
        self.call_log.begin_wait(self.number)
        with _errors_named(self.call_log.rank, self.call):
            self.work.wait()
        self.call_log.end_wait()


@contextmanager
def _errors_named(rank: int, call: str) -> Iterator[None]:
    """Turn an error of `torch.distributed` into one sentence that names rank and call."""
    try:
        yield
    except RuntimeError as error:
        line = (str(error).splitlines() or [""])[0]
        raise BrokenCallError(f"rank {rank} failed in {call}: {line}") from error


class TorchComm(Comm):
    """This process's connection to the other ranks.

    Attributes:
        call_log: Of all calls of this process.
    """

    def __init__(self, call_log: CallLog, group: Group, process_group: Any = None) -> None:
        """Join a group; without a process group, that of all ranks."""
        super().__init__(call_log.rank, group)
        self.call_log, self._process_group = call_log, process_group

    @torch.no_grad()
    def _start(self, call: Call, tensor: Tensor | None, output: Tensor | None) -> _TorchHandle:
        number, exchange = self.call_log.record(call, self._group)
        name = exchange.describe(self._world_rank)
        with _errors_named(self._world_rank, name):
            work = self._start_work(call, tensor, output)
        return _TorchHandle(self.call_log, work, number, name)

    def _start_work(self, call: Call, tensor: Tensor | None, output: Tensor | None) -> Any:
        group = self._process_group
        if tensor is None:
            return dist.barrier(group=group, async_op=True)
        if call.kind == "send":
            return dist.isend(tensor, dst=call.peer, group=group)
        if call.kind == "receive":
            return dist.irecv(tensor, src=call.peer, group=group)
        if call.kind == "broadcast":
            assert call.peer is not None
            return dist.broadcast(tensor, src=call.peer, group=group, async_op=True)
        if call.kind == "all_reduce":
            return dist.all_reduce(tensor, group=group, async_op=True)
        assert output is not None
        flat = output.view(-1), tensor.view(-1)  # gloo requires matching shapes, `Comm` only sizes
        if call.kind == "all_gather":
            return dist.all_gather_single(*flat, group=group, async_op=True)
        return dist.reduce_scatter_single(*flat, group=group, async_op=True)

    def split(self, colour: int) -> "TorchComm":
        """Make a group of the ranks that give the same number, in the order of their ranks."""
        number, exchange = self.call_log.record(Call("split"), self._group)
        self.call_log.begin_wait(number)
        colours: list[Any] = [None] * self.size
        with _errors_named(self._world_rank, exchange.describe(self._world_rank)):
            dist.all_gather_object(colours, colour, group=self._process_group)
            pairs = zip(self._group.members, colours, strict=True)
            members = tuple(member for member, each in pairs if each == colour)
            process_group = dist.new_group(list(members), use_local_synchronization=True)
        self.call_log.end_wait()
        group = Group(members, f"{self._group.name}/{exchange.number}: {colour}")
        return TorchComm(self.call_log, group, process_group)
