"""What each rank of a virtual cluster did, as plain data: its calls with the tensors, its compute.

The log of a rank has an entry for each thing that it did, in program order:

    {"compute": "backward", "seconds": 6.0}
    {"call": "receive", "group": 0, "peer": 1, "tensor": None, "result": tensor([3.0])}
    {"wait": 0}
    {"split": 1, "group": 0}

A call holds what went in, and what it had filled when the wait for it was over; a wait holds the
number of the call. The group of all ranks is number 0, and each split makes the next one. Nothing
is counted here: `replay` does it.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor

from course_utils.distributed.call_matching import Call
from course_utils.distributed.cluster import VirtualCluster, VirtualComm
from course_utils.distributed.comm import Comm, Handle

Log = list[dict[str, Any]]
"""What one rank did."""


class Recorded(NamedTuple):
    """What a function returned on each of the ranks, and what each rank did meanwhile."""

    ranks: list[Any]
    logs: list[Log]


def record(cluster: VirtualCluster, function: Callable[..., Any], *args: Any) -> Recorded:
    """Run ``function(comm, *args)`` on all ranks, as `VirtualCluster.run` does, and log all calls.

    Raises:
        CommError: As `VirtualCluster.run`.
    """
    recorders = [_Recorder() for _ in range(cluster.num_ranks)]

    def on_rank(comm: Comm, *args: Any) -> Any:
        assert isinstance(comm, VirtualComm)
        recorder = recorders[comm.rank]
        comm.on_compute(recorder.compute)
        return function(_RecordingComm(comm, recorder, group=0), *args)

    run = cluster.run(on_rank, *args)
    return Recorded(run.results, [each.log for each in recorders])


@dataclass(eq=False)
class _Recorder:
    """The log of one rank."""

    log: Log = field(default_factory=list)
    num_calls: int = 0
    num_groups: int = 1

    def compute(self, seconds: float, name: str) -> None:
        self.log.append({"compute": name, "seconds": seconds})

    def call(self, kind: str, group: int, peer: int | None, tensor: Tensor | None) -> int:
        """Log a call; its number."""
        entry = {"call": kind, "group": group, "peer": peer, "tensor": tensor, "result": None}
        self.log.append(entry)
        self.num_calls += 1
        return self.num_calls - 1

    def split(self, colour: int, group: int) -> int:
        """Log a split; the number of the new group."""
        self.log.append({"split": colour, "group": group})
        self.num_groups += 1
        return self.num_groups - 1


class _RecordingComm(Comm):
    """A connection to the other ranks that logs what it carries."""

    def __init__(self, comm: Comm, recorder: _Recorder, group: int) -> None:
        super().__init__(comm._world_rank, comm._group)
        self._comm, self._recorder, self._number = comm, recorder, group

    def _start(self, call: Call, tensor: Tensor | None, output: Tensor | None) -> Handle:
        peer = None if call.peer is None else self._group.members.index(call.peer)
        sent = None if call.kind == "receive" else _copied(tensor)
        number = self._recorder.call(call.kind, self._number, peer, sent)
        entry = self._recorder.log[-1]
        handle = self._comm._start(call, tensor, output)
        return _RecordingHandle(handle, self._recorder.log, number, entry, output)

    def named(self, name: str) -> AbstractContextManager[None]:
        """Give a name to what this rank computes meanwhile."""
        return self._comm.named(name)

    def split(self, colour: int) -> Comm:
        """Make a group of the ranks that give the same number, in the order of their ranks."""
        number = self._recorder.split(colour, self._number)
        return _RecordingComm(self._comm.split(colour), self._recorder, number)


@dataclass(eq=False)
class _RecordingHandle:
    """A call in flight, whose result is logged when it is over."""

    handle: Handle
    log: Log
    number: int
    entry: dict[str, Any]
    output: Tensor | None
    is_over: bool = False

    def wait(self) -> None:
        self.handle.wait()
        if not self.is_over:
            self.is_over = True
            self.log.append({"wait": self.number})
            self.entry["result"] = _copied(self.output)
            self.output = None


def _copied(tensor: Tensor | None) -> Tensor | None:
    """A copy that no instrument around the rank counts."""
    if tensor is None:
        return None
    with torch._C._DisableTorchDispatch():
        return tensor.detach().clone()
