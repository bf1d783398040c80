"""Which calls of the ranks belong together, and which rank does one wait for?

Collectives match by their order: the k-th of each rank of a group is one exchange, so all must be
of one kind, shape and dtype. Messages match by their order between two ranks. Nothing here moves a
number: the virtual cluster matches calls as they come, and `run_ranks` those in its journals.

    >>> matcher, world = Matcher(), Group(members=(0, 1))
    >>> exchange = matcher.post(0, Call("all_reduce", (64, 64), "float32", 16384), world)
    >>> exchange.name, exchange.missing
    ('all_reduce #0', [1])
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

MESSAGES = ("send", "receive")
VERBS = {
    "has": "have",
    "waits": "wait",
    "runs": "run",
    "starts": "start",
    "was": "were",
}


class CommError(RuntimeError):
    """Ranks that cannot go on together."""


class DeadlockError(CommError):
    """Each rank waits for another one, or for one that has returned."""


class MismatchError(CommError):
    """Ranks call different things where they should call the same."""


class TimeLimitError(CommError):
    """The ranks were not done when their time was used up."""


class BrokenCallError(CommError):
    """A call that could not be carried out, mostly since another rank is not there any more."""


class RankError(CommError):
    """An error of one rank's own; where it can be had, the original is the cause.

    Attributes:
        rank: The one that raised.
    """

    def __init__(self, rank: int, message: str) -> None:
        """Keep who raised beside what is to be said."""
        super().__init__(message)
        self.rank = rank


@dataclass(frozen=True)
class Call:
    """What one rank asks for, without its numbers.

    Attributes:
        kind: Name of the method.
        shape: Of the tensor that is given, not of the one that is filled.
        dtype: Of both, without ``torch.``.
        num_bytes: Of the whole: what is reduced, gathered or sent.
        peer: The rank that a broadcast or message comes from, or that a message goes to.
    """

    kind: str
    shape: tuple[int, ...] = ()
    dtype: str = ""
    num_bytes: int = 0
    peer: int | None = None

    def __str__(self) -> str:
        """As in ``broadcast of (64,) float32 from rank 1``."""
        what = f" of {self.shape} {self.dtype}" if self.dtype else ""
        way = "to" if self.kind == "send" else "from"
        return f"{self.kind}{what}" + ("" if self.peer is None else f" {way} rank {self.peer}")


@dataclass(frozen=True)
class Group:
    """Ranks that communicate with each other.

    Attributes:
        members: Their numbers among all ranks, in the order of their ranks in the group.
        name: Empty for all ranks; otherwise no two groups have the same.
    """

    members: tuple[int, ...]
    name: str = ""


@dataclass(eq=False)
class Exchange:
    """Calls that belong together, one of each member."""

    number: int
    group: Group
    members: tuple[int, ...]
    calls: dict[int, Call] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """As in ``all_reduce #3``, counted from zero in the group."""
        kind = next(iter(self.calls.values())).kind
        if kind in MESSAGES:
            return f"message #{self.number} from rank {self.members[0]} to rank {self.members[1]}"
        return f"{kind} #{self.number}{self.among}"

    @property
    def among(self) -> str:
        """The members in words, if they are not all ranks."""
        is_part = self.group.name and self.members == self.group.members
        return f" among {ranks_in_words(self.members)}" if is_part else ""

    @property
    def missing(self) -> list[int]:
        """Members that have not called yet."""
        return [member for member in self.members if member not in self.calls]

    def of(self, rank: int) -> str:
        """The call of one member in words, with its number."""
        call = self.calls[rank]
        return str(call).replace(call.kind, f"{call.kind} #{self.number}", 1) + self.among


class Numbering:
    """Counts the calls of each rank in each group, and its messages on each way."""

    def __init__(self) -> None:
        """Nothing was called yet."""
        self._num_calls: Counter[tuple[object, ...]] = Counter()

    def place(self, rank: int, call: Call, group: Group) -> tuple[tuple[object, ...], Exchange]:
        """What all calls of the same exchange have in common, and it with this call only."""
        members = _members(rank, call, group)
        way = (group.name, members, call.kind in MESSAGES)
        number = self._num_calls[(*way, rank)]
        self._num_calls[(*way, rank)] += 1
        return (*way, number), Exchange(number, group, members, {rank: call})


class Matcher:
    """Puts the calls of all ranks together as they come."""

    def __init__(self) -> None:
        """Nothing was called yet."""
        self._exchanges: dict[tuple[object, ...], Exchange] = {}
        self._numbering = Numbering()

    def post(self, rank: int, call: Call, group: Group) -> Exchange:
        """The exchange to which the next call of a rank belongs.

        Raises:
            MismatchError: If another rank called something else in its place.
        """
        place, alone = self._numbering.place(rank, call, group)
        exchange = self._exchanges.setdefault(place, alone)
        exchange.calls[rank] = call
        for other, theirs in exchange.calls.items():
            if not _fits(call, theirs):
                first, second = sorted((rank, other))
                raise MismatchError(
                    f"mismatch in {_place(exchange)}: rank {first} calls {exchange.calls[first]}, "
                    f"and rank {second} {exchange.calls[second]}"
                )
        if not exchange.missing:
            del self._exchanges[place]
        return exchange


def _members(rank: int, call: Call, group: Group) -> tuple[int, ...]:
    """Who takes part: the group, or the sender and the receiver."""
    if call.kind not in MESSAGES:
        return group.members
    assert call.peer is not None
    return (rank, call.peer) if call.kind == "send" else (call.peer, rank)


def _fits(call: Call, other: Call) -> bool:
    if call.kind in MESSAGES:
        return (call.shape, call.dtype) == (other.shape, other.dtype)
    return call == other


def _place(exchange: Exchange) -> str:
    """The calls of ranks have one number, and here not one kind."""
    kind = next(iter(exchange.calls.values())).kind
    return exchange.name if kind in MESSAGES else f"collective #{exchange.number}{exchange.among}"


def ranks_in_words(ranks: Sequence[int]) -> str:
    """As in ``rank 3``, ``ranks 0, 2`` and ``ranks 0-3, 7``."""
    runs = []
    for _, run in groupby(enumerate(sorted(ranks)), key=lambda pair: pair[1] - pair[0]):
        numbers = [number for _, number in run]
        if len(numbers) > 2:
            runs.append(f"{numbers[0]}-{numbers[-1]}")
        else:
            runs.extend(map(str, numbers))
    return f"rank{'s' * (len(ranks) > 1)} {', '.join(runs)}"


def states_in_words(states: Mapping[int, str]) -> str:
    """One clause for all ranks of one state: ``rank 0 waits in barrier #0; rank 1 has returned``.

    Args:
        states: Of each rank, with a verb of ``VERBS`` first.
    """
    clauses: dict[str, list[int]] = {}
    for rank, state in states.items():
        clauses.setdefault(state, []).append(rank)
    return "; ".join(
        f"{ranks_in_words(ranks)} {_conjugated(state, len(ranks))}"
        for state, ranks in clauses.items()
    )


def _conjugated(state: str, num_ranks: int) -> str:
    verb, _, rest = state.partition(" ")
    return f"{VERBS[verb] if num_ranks > 1 else verb} {rest}"
