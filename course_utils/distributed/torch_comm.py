"""Ranks that are real: the same interface on `torch.distributed`.

A script that ``torchrun --nproc-per-node 8 script.py`` starts on a machine with GPUs:

    >>> comm = torch_comm()
    >>> step(comm, model, batch)

Sources: PyTorch documentation, "Distributed communication package" and "torchrun".
"""

import atexit
import os
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from course_utils.distributed.call_log import CallLog
from course_utils.distributed.call_matching import BrokenCallError, Call, Group
from course_utils.distributed.comm import Comm

NO_NCCL = (
    "torch has no NCCL here, which needs NVIDIA GPUs, Linux and a CUDA build of torch: "
    'use the backend "gloo"'
)
VARIABLES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def torch_comm(backend: str | None = None) -> "TorchComm":
    """All ranks that ``torchrun`` has started, of which this process is one.

    On a machine with GPUs each rank gets its own as the current one.

    Args:
        backend: ``"nccl"`` for tensors on GPUs or ``"gloo"`` for those on CPUs; without it NCCL
            where torch has it and sees a GPU.

    Raises:
        ValueError: If ``torchrun`` did not start this process, or if there is no such backend.
    """
    missing = [name for name in VARIABLES if name not in os.environ]
    if missing:
        raise ValueError(
            f"torch_comm reads {', '.join(missing)}, which torchrun sets: start the script with "
            f"`torchrun --nproc-per-node 2 script.py`"
        )
    has_gpus = dist.is_nccl_available() and torch.cuda.is_available()
    backend = backend or ("nccl" if has_gpus else "gloo")
    require_backend(backend)
    if backend == "nccl":
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    dist.init_process_group(backend)
    atexit.register(_leave)
    return TorchComm(CallLog(dist.get_rank()), Group(tuple(range(dist.get_world_size()))))


def _leave() -> None:
    with suppress(RuntimeError):  # of a rank that others have left
        dist.destroy_process_group()


def require_backend(backend: str) -> None:
    """Refuse what carries no messages here.

    Raises:
        ValueError: If torch does not have it.
    """
    if backend not in ("gloo", "nccl"):
        raise ValueError(f'the backend must be "gloo" or "nccl", got {backend!r}')
    if backend == "nccl" and not (dist.is_nccl_available() and torch.cuda.is_available()):
        raise ValueError(NO_NCCL)


@dataclass(frozen=True, eq=False)
class _TorchHandle:
    """A call of `torch.distributed` that is under way."""

    comm: "TorchComm"
    work: Any
    number: int
    call: str

    def wait(self) -> None:
        journal = self.comm.journal
        journal.wait(self.number)
        with self.comm.naming(self.call):
            self.work.wait()
        journal.go_on()


class _Naming:
    """Says in which call the others were lost."""

    def __init__(self, rank: int, call: str) -> None:
        self.rank, self.call = rank, call

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, RuntimeError):
            line = (str(error).splitlines() or [""])[0]
            raise BrokenCallError(f"rank {self.rank} failed in {self.call}: {line}") from error


class TorchComm(Comm):
    """One process's way to the others.

    Attributes:
        journal: Of all calls of this process.
    """

    def __init__(self, journal: CallLog, group: Group, process_group: Any = None) -> None:
        """Take part in a group; without a process group in that of all ranks."""
        super().__init__(journal.rank, group)
        self.journal, self._process_group = journal, process_group

    def naming(self, call: str) -> _Naming:
        """Inside, an error of `torch.distributed` becomes one sentence with rank and call."""
        return _Naming(self._world_rank, call)

    @torch.no_grad()
    def _start(self, call: Call, tensor: Tensor | None, output: Tensor | None) -> _TorchHandle:
        number, exchange = self.journal.call(call, self._group)
        name = exchange.of(self._world_rank)
        with self.naming(name):
            return _TorchHandle(self, self._begin(call, tensor, output), number, name)

    def _begin(self, call: Call, tensor: Tensor | None, output: Tensor | None) -> Any:
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
        flat = output.view(-1), tensor.view(-1)  # gloo wants shapes that fit, here sizes do
        if call.kind == "all_gather":
            return dist.all_gather_single(*flat, group=group, async_op=True)
        return dist.reduce_scatter_single(*flat, group=group, async_op=True)

    def split(self, colour: int) -> "TorchComm":
        """The ranks that give the same number become a group, in the order of their ranks."""
        number, exchange = self.journal.call(Call("split"), self._group)
        self.journal.wait(number)
        colours: list[Any] = [None] * self.size
        with self.naming(exchange.of(self._world_rank)):
            dist.all_gather_object(colours, colour, group=self._process_group)
            pairs = zip(self._group.members, colours, strict=True)
            members = tuple(member for member, each in pairs if each == colour)
            process_group = dist.new_group(list(members), use_local_synchronization=True)
        self.journal.go_on()
        group = Group(members, f"{self._group.name}/{exchange.number}: {colour}")
        return TorchComm(self.journal, group, process_group)
