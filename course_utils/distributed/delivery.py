"""What do the tensors hold after a call? Sums are made in the order of ranks, so they repeat.

What is sent is what a tensor held when the call was made, and it is filled when its rank waits.
Tensors without numbers, on the meta device or fake ones, are left alone. No dispatch mode sees the
copies that are made here: one in Python takes ten times as long as a small copy.
"""

from contextlib import AbstractContextManager
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor

from course_utils.distributed.call_matching import MESSAGES, CommError, Exchange


@dataclass(eq=False)
class Post:
    """One rank's side of an exchange.

    Attributes:
        tensor: What is sent; None for a barrier.
        output: What is filled, if anything.
        clock: The virtual second of the call.
        colour: Of a split.
        number: Of this call among those of its rank.
        sent: A copy of the tensor, if it has numbers.
    """

    tensor: Tensor | None
    output: Tensor | None
    clock: float
    colour: int = 0
    number: int = 0
    sent: Tensor | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        """Keep what is sent."""
        if self.tensor is not None and _has_numbers(self.tensor):
            with _unseen():
                self.sent = self.tensor.detach().clone()


@dataclass(eq=False)
class Transfer:
    """An exchange with the tensors of those that called.

    Attributes:
        start_seconds: When all were there and their lanes free.
        end_seconds: When it is over.
        is_timed: Whether these two are known.
        waited: Who has got what it wanted.
    """

    exchange: Exchange
    posts: dict[int, Post] = field(default_factory=dict)
    start_seconds: float = 0.0
    end_seconds: float = 0.0
    is_timed: bool = False
    waited: set[int] = field(default_factory=set)
    _outcome: Tensor | None = None

    @property
    def is_complete(self) -> bool:
        """Whether all have called."""
        return not self.exchange.missing

    @property
    def called_seconds(self) -> float:
        """When the last one called."""
        return max(post.clock for post in self.posts.values())

    @property
    def is_message(self) -> bool:
        """Whether one rank sends and one receives."""
        return self.exchange.calls[self.exchange.members[0]].kind in MESSAGES

    @property
    def first_call(self) -> tuple[int, int]:
        """The number of its first rank's call, and which rank that is; of a message, who sends."""
        first = self.exchange.members[0]
        return self.posts[first].number, first

    def add(self, rank: int, post: Post) -> None:
        """Take in one more side.

        Raises:
            CommError: If two ranks brought one tensor, so that the one fills the other's.
        """
        for other, theirs in self.posts.items():
            if _fills(post, theirs) or _fills(theirs, post):
                raise CommError(
                    f"ranks {other} and {rank} give one and the same tensor to "
                    f"{self.exchange.of(rank)}: build the model inside the function, or pass it as "
                    f"an argument, of which each rank gets a copy"
                )
        self.posts[rank] = post

    def deliver(self, rank: int) -> None:
        """Fill the tensor of one rank, and let all go when it was the last.

        Raises:
            CommError: If its numbers were changed while the call was under way.
        """
        post, call = self.posts[rank], self.exchange.calls[rank]
        with _unseen():
            if call.kind != "receive" and not _same_bytes(post.sent, post.tensor):
                raise CommError(
                    f"rank {rank} changed its tensor before {self.exchange.of(rank)} was over: "
                    f"wait first"
                )
            if post.output is not None and _has_numbers(post.output):
                self._fill(post.output, rank)
        self.waited.add(rank)
        if len(self.waited) == len(self.exchange.members):
            self._outcome = None
            for each in self.posts.values():
                each.tensor = each.output = each.sent = None

    def _fill(self, output: Tensor, rank: int) -> None:
        if self._outcome is None:
            self._outcome = self._made()
        flat, num_elements, start = self._outcome.flatten(), output.numel(), 0
        if self.exchange.calls[rank].kind == "reduce_scatter":
            start = num_elements * self.exchange.members.index(rank)
        with torch.no_grad():
            output.copy_(flat[start : start + num_elements].view_as(output))

    def _made(self) -> Tensor:
        """What comes out of all that was sent, as a whole."""
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
                f"rank {rank} gives a tensor without numbers to {self.exchange.of(rank)}, and "
                f"another rank one with numbers"
            )
        return sent


def _has_numbers(tensor: Tensor) -> bool:
    return not tensor.is_meta and not isinstance(tensor, FakeTensor)


def _fills(post: Post, other: Post) -> bool:
    """Whether what the one fills is what the other sends or fills."""
    return bool(_storages(post.output) & _storages(other.tensor, other.output))


def _storages(*tensors: Tensor | None) -> set[int]:
    return {each.untyped_storage()._cdata for each in tensors if each is not None}


def _unseen() -> AbstractContextManager[None]:
    """Operations inside are no work of the ranks."""
    unseen: AbstractContextManager[None] = torch._C._DisableTorchDispatch()
    return unseen


def _same_bytes(one: Tensor | None, other: Tensor | None) -> bool:
    """Of bytes, since a number that is none does not equal itself."""
    if one is None or other is None:
        return True
    raw, other_raw = (each.detach().flatten().view(torch.uint8) for each in (one, other))
    return torch.equal(raw, other_raw)
