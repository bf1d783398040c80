"""What do the tensors hold after a call? Sums run in the order of ranks, so they are reproducible.

A call sends what its tensor held when the call was made, and fills its output when the rank waits.
Tensors without data (meta or fake) are left alone. Dispatch modes do not see the copies made here:
a mode in Python takes ten times as long as a small copy.
"""

from contextlib import AbstractContextManager
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor

from course_utils.distributed.call_matching import MESSAGES, CommError, Exchange


@dataclass(eq=False)
class PostedCall:
    """One rank's side of an exchange.

    Attributes:
        tensor: What is sent; None for a barrier.
        output: What is filled, if anything.
        clock: Virtual second of the call.
        colour: Of a split.
        number: Of this call among the calls of its rank.
        sent: Copy of the tensor, if it has data.
        filled: The storage of the output, if anything is filled.
        used: The storages of tensor and output.
    """

    tensor: Tensor | None
    output: Tensor | None
    clock: float
    colour: int = 0
    number: int = 0
    sent: Tensor | None = field(init=False, default=None)
    filled: set[int] = field(init=False)
    used: set[int] = field(init=False)

    def __post_init__(self) -> None:
        """Copy what is sent."""
        self.filled = _storages(self.output)
        self.used = self.filled | _storages(self.tensor)
        if self.tensor is not None and _has_data(self.tensor):
            with _hidden_from_modes():
                self.sent = self.tensor.detach().clone()


@dataclass(eq=False)
class Transfer:
    """An exchange with the tensors of its calls.

    Attributes:
        exchange: The calls.
        posts: Each rank's side.
        start_seconds: When all had called and their lanes were free.
        end_seconds: When it ends.
        is_timed: Whether start and end are known.
        delivered_to: Ranks that have waited, and so have their result.
    """

    exchange: Exchange
    posts: dict[int, PostedCall] = field(default_factory=dict)
    start_seconds: float = 0.0
    end_seconds: float = 0.0
    is_timed: bool = False
    delivered_to: set[int] = field(default_factory=set)
    _result: Tensor | None = None

    @property
    def is_complete(self) -> bool:
        """Whether all members have called."""
        return not self.exchange.missing

    @property
    def called_seconds(self) -> float:
        """When the last one called."""
        return max(post.clock for post in self.posts.values())

    @property
    def is_message(self) -> bool:
        """Whether it is point to point, not a collective."""
        return self.exchange.calls[self.exchange.members[0]].kind in MESSAGES

    @property
    def first_call(self) -> tuple[int, int]:
        """Call number and rank of the first member, which for a message is the sender."""
        first = self.exchange.members[0]
        return self.posts[first].number, first

    def add(self, rank: int, post: PostedCall) -> None:
        """Add one rank's side.

        Raises:
            CommError: If two ranks share a tensor, so that one overwrites the other's.
        """
        for other, other_post in self.posts.items():
            if post.filled & other_post.used or other_post.filled & post.used:
                raise CommError(
                    f"ranks {other} and {rank} give one and the same tensor to "
                    f"{self.exchange.describe(rank)}: build the model inside the function, or pass "
                    f"it as an argument, of which each rank gets a copy"
                )
        self.posts[rank] = post

    def deliver(self, rank: int) -> None:
        """Fill the output of one rank and let go of its tensors; after the last, of all copies.

        Raises:
            CommError: If the rank changed its tensor while the call was in flight.
        """
        post, call = self.posts[rank], self.exchange.calls[rank]
        with _hidden_from_modes(), torch.no_grad():
            if call.kind != "receive" and not _same_bytes(post.sent, post.tensor):
                raise CommError(
                    f"rank {rank} changed its tensor before {self.exchange.describe(rank)} was "
                    f"over: wait first"
                )
            if post.output is not None and _has_data(post.output):
                self._fill(post.output, rank)
        self.delivered_to.add(rank)
        post.tensor = post.output = None
        if len(self.delivered_to) == len(self.exchange.members):
            self._result = None
            for each in self.posts.values():
                each.sent = None

    def _fill(self, output: Tensor, rank: int) -> None:
        if self._result is None:
            self._result = self._combined().flatten()
        part = self._result
        if self.exchange.calls[rank].kind == "reduce_scatter":
            start = output.numel() * self.exchange.members.index(rank)
            part = part[start : start + output.numel()]
        output.copy_(part.view_as(output))

    def _combined(self) -> Tensor:
        """The result of all that was sent, before a rank takes its part of it."""
        members = self.exchange.members
        call = self.exchange.calls[members[0]]
        sent = [self._sent_by(member) for member in members]
        if call.kind in MESSAGES:
            return sent[0]
        if call.kind == "broadcast":
            assert call.peer is not None
            return sent[members.index(call.peer)]
        if call.kind == "all_gather":
            return torch.cat([each.flatten() for each in sent])
        total = sent[0].clone()
        for each in sent[1:]:
            total += each
        return total

    def _sent_by(self, rank: int) -> Tensor:
        sent = self.posts[rank].sent
        if sent is None:
            raise CommError(
                f"rank {rank} gives a tensor without numbers to {self.exchange.describe(rank)}, "
                f"and another rank one with numbers"
            )
        return sent


def _has_data(tensor: Tensor) -> bool:
    return not tensor.is_meta and not isinstance(tensor, FakeTensor)


def _storages(tensor: Tensor | None) -> set[int]:
    return set() if tensor is None else {tensor.untyped_storage()._cdata}


def _hidden_from_modes() -> AbstractContextManager[None]:
    """Hide operations from dispatch modes, which would count them as work of the rank."""
    hidden: AbstractContextManager[None] = torch._C._DisableTorchDispatch()
    return hidden


def _same_bytes(one: Tensor | None, other: Tensor | None) -> bool:
    """Compare bytes, not values: NaN does not equal itself."""
    if one is None or other is None:
        return True
    return torch.equal(one.flatten().view(torch.uint8), other.flatten().view(torch.uint8))
