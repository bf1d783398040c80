"""How do ranks communicate? One interface, whatever carries the messages.

A function that takes a `Comm` runs unchanged on a `VirtualCluster`, in processes on this machine
(`run_ranks`), and on GPUs under ``torchrun``.

    >>> def step(comm: Comm, model: nn.Module, batch: Tensor) -> None:
    ...     model(batch).sum().backward()
    ...     for parameter in model.parameters():
    ...         comm.all_reduce(parameter.grad)
    ...         parameter.grad /= comm.size

All calls block, or with ``async_op=True`` return a handle: until its ``wait()`` returns, the
tensors belong to the call, and every handle must be waited for. Tensors must be contiguous, as
collective libraries require. A call that takes two tensors fills the first, as in
`torch.distributed`.

Sources: PyTorch documentation, "Distributed communication package".
"""

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager, nullcontext
from typing import Literal, Protocol, overload

import torch
from torch import Tensor

from course_utils.distributed.call_matching import Call, Group

Later = Literal[True]
Now = Literal[False]


class Handle(Protocol):
    """A call in flight."""

    def wait(self) -> None:
        """Block until the tensors of the call may be used again."""


class Comm(ABC):
    """One rank's connection to the other ranks of its group.

    Attributes:
        rank: Number of this rank in the group, from zero.
        size: Number of ranks in the group.
    """

    def __init__(self, world_rank: int, group: Group) -> None:
        """Join a group as the rank that has this number among all ranks."""
        self._world_rank, self._group = world_rank, group
        self.rank, self.size = group.members.index(world_rank), len(group.members)

    def __repr__(self) -> str:
        """As in ``TorchComm: rank 0 of 2``."""
        return f"{type(self).__name__}: rank {self.rank} of {self.size}"

    @abstractmethod
    def _start(self, call: Call, tensor: Tensor | None, output: Tensor | None) -> Handle:
        """Start a call whose arguments have been checked."""

    @abstractmethod
    def split(self, colour: int) -> "Comm":
        """Make a group of the ranks that give the same number, in the order of their ranks.

        All ranks must call it. ``comm.split(comm.rank // 8)`` makes each node of eight a group.
        """

    @overload
    def all_reduce(self, tensor: Tensor, async_op: Later) -> Handle: ...
    @overload
    def all_reduce(self, tensor: Tensor, async_op: Now = False) -> None: ...
    def all_reduce(self, tensor: Tensor, async_op: bool = False) -> Handle | None:
        """Sum over all ranks, in place on each."""
        return self._call("all_reduce", tensor, tensor, async_op)

    @overload
    def broadcast(self, tensor: Tensor, source: int, async_op: Later) -> Handle: ...
    @overload
    def broadcast(self, tensor: Tensor, source: int, async_op: Now = False) -> None: ...
    def broadcast(self, tensor: Tensor, source: int, async_op: bool = False) -> Handle | None:
        """Copy the tensor of the rank ``source``, in place on all others."""
        return self._call("broadcast", tensor, tensor, async_op, source)

    @overload
    def all_gather(self, output: Tensor, tensor: Tensor, async_op: Later) -> Handle: ...
    @overload
    def all_gather(self, output: Tensor, tensor: Tensor, async_op: Now = False) -> None: ...
    def all_gather(self, output: Tensor, tensor: Tensor, async_op: bool = False) -> Handle | None:
        """Concatenate the tensors of all ranks into the ``output`` of each rank."""
        return self._call("all_gather", tensor, output, async_op)

    @overload
    def reduce_scatter(self, output: Tensor, tensor: Tensor, async_op: Later) -> Handle: ...
    @overload
    def reduce_scatter(self, output: Tensor, tensor: Tensor, async_op: Now = False) -> None: ...
    def reduce_scatter(
        self, output: Tensor, tensor: Tensor, async_op: bool = False
    ) -> Handle | None:
        """Sum over all ranks; ``output`` gets this rank's part of ``size`` equal parts."""
        return self._call("reduce_scatter", tensor, output, async_op)

    @overload
    def send(self, tensor: Tensor, to: int, async_op: Later) -> Handle: ...
    @overload
    def send(self, tensor: Tensor, to: int, async_op: Now = False) -> None: ...
    def send(self, tensor: Tensor, to: int, async_op: bool = False) -> Handle | None:
        """Send a message to one rank, which must receive it."""
        return self._call("send", tensor, None, async_op, to)

    @overload
    def receive(self, tensor: Tensor, source: int, async_op: Later) -> Handle: ...
    @overload
    def receive(self, tensor: Tensor, source: int, async_op: Now = False) -> None: ...
    def receive(self, tensor: Tensor, source: int, async_op: bool = False) -> Handle | None:
        """Receive the next message from one rank, in place."""
        return self._call("receive", tensor, tensor, async_op, source)

    def named(self, name: str) -> AbstractContextManager[None]:
        """Give a name to what this rank computes meanwhile, where a virtual clock logs it."""
        return nullcontext()

    def barrier(self) -> None:
        """Block until all ranks have called it."""
        self._start(Call("barrier"), None, None).wait()

    def _call(
        self,
        kind: str,
        tensor: Tensor,
        output: Tensor | None,
        is_async: bool,
        peer: int | None = None,
    ) -> Handle | None:
        """Check and start a call; a blocking call returns None, as a gradient hook must."""
        for each in (tensor,) if kind == "send" else (tensor, output):
            _require_sendable(kind, each)
        whole = self._whole(kind, tensor, output)
        world_peer = None if peer is None else self._peer(kind, peer)
        dtype = str(tensor.dtype).removeprefix("torch.")
        call = Call(kind, tuple(tensor.shape), dtype, whole.nbytes, world_peer)
        handle = self._start(call, tensor, output)
        if is_async:
            return handle
        handle.wait()
        return None

    def _whole(self, kind: str, tensor: Tensor, output: Tensor | None) -> Tensor:
        """The larger tensor: of a gather or scatter, it has ``size`` times as many elements."""
        if kind not in ("all_gather", "reduce_scatter"):
            return tensor
        assert output is not None
        whole, part = (output, tensor) if kind == "all_gather" else (tensor, output)
        if whole.numel() != self.size * part.numel() or whole.dtype != part.dtype:
            names = ("output", "tensor") if kind == "all_gather" else ("tensor", "output")
            raise ValueError(
                f"{kind}: among {self.size} ranks `{names[0]}` has {self.size} times as many "
                f"elements as `{names[1]}`, of one dtype; got {_in_words(whole)} and "
                f"{_in_words(part)}"
            )
        return whole

    def _peer(self, kind: str, peer: int) -> int:
        """A rank's number among all ranks, from its number in the group."""
        if type(peer) is not int or not 0 <= peer < self.size:
            raise ValueError(f"{kind}: there are ranks 0 to {self.size - 1}, got {peer!r}")
        if kind != "broadcast" and peer == self.rank:
            raise ValueError(f"{kind}: rank {peer} is this rank itself")
        return self._group.members[peer]


def _require_sendable(kind: str, tensor: Tensor | None) -> None:
    if not isinstance(tensor, Tensor):
        got = "None" if tensor is None else type(tensor).__name__
        raise TypeError(f"{kind} wants tensors, got {got}")
    if tensor.layout is not torch.strided or not tensor.is_contiguous():
        raise ValueError(
            f"{kind}: the tensor of shape {tuple(tensor.shape)} is not contiguous: "
            f"communicate tensor.contiguous(), and copy what comes back"
        )
    if torch.is_grad_enabled() and tensor.grad_fn is not None:
        raise ValueError(
            f"{kind}: autograd follows the tensor of shape {tuple(tensor.shape)}, and would pass "
            f"over the other ranks: communicate in torch.no_grad() or in an autograd.Function"
        )


def _in_words(tensor: Tensor) -> str:
    return f"{tuple(tensor.shape)} {str(tensor.dtype).removeprefix('torch.')}"
