"""Which calls of different ranks belong together, and which rank keeps another one waiting?

Collectives match by order: the k-th calls of all ranks of a group are one exchange, so they must
agree in kind, shape and dtype. Messages match by order between two ranks. Nothing here moves data:
the virtual cluster matches calls as they come in, and `run_ranks` those in its call logs.

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
PLURALS = {"has": "have", "waits": "wait", "runs": "run", "starts": "start"}

Key = tuple[object, ...]  # the same for all calls of one exchange


class CommError(RuntimeError):
    """Communication between ranks that cannot go on."""


class DeadlockError(CommError):
    """Each rank waits for another one, or for one that has returned."""


class MismatchError(CommError):
    """Ranks make different calls where they should make the same."""


class TimeLimitError(CommError):
    """The ranks did not return in time."""


class BrokenCallError(CommError):
    """A call that failed, usually because another rank is gone."""


class RankError(CommError):
    """An error that one rank raised by itself; the original is the cause, where available.

    Attributes:
        rank: The rank that raised.
    """

    def __init__(self, rank: int, message: str) -> None:
        super().__init__(message)
        self.rank = rank


@dataclass(frozen=True)
class Call:
    """What one rank asks for, without the data.

    Attributes:
        kind: Name of the `Comm` method.
        shape: Of the tensor that goes in, not of the one that is filled.
        dtype: Of both, without ``torch.``.
        num_bytes: Of the whole: what is reduced, gathered or sent.
        peer: Source of a broadcast or message, or destination of a message, among all ranks.
    """

    kind: str
    shape: tuple[int, ...] = ()
    dtype: str = ""
    num_bytes: int = 0
    peer: int | None = None

    def __str__(self) -> str:
        """As in ``broadcast of (64,) float32 from rank 1``."""
        what = f" of {self.shape} {self.dtype}" if self.dtype else ""
        direction = "to" if self.kind == "send" else "from"
        whom = "" if self.peer is None else f" {direction} rank {self.peer}"
        return f"{self.kind}{what}{whom}"


@dataclass(frozen=True)
class Group:
    """Ranks that communicate with each other.

    Attributes:
        members: Their numbers among all ranks, in the order of their ranks in the group.
        name: Unique; empty for the group of all ranks.
    """

    members: tuple[int, ...]
    name: str = ""


@dataclass(eq=False)
class Exchange:
    """Calls that belong together, one per member."""

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
        """The members in words, unless they are all ranks."""
        is_part = self.group.name and self.members == self.group.members
        return f" among {ranks_in_words(self.members)}" if is_part else ""

    @property
    def missing(self) -> list[int]:
        """Members that have not called yet."""
        return [member for member in self.members if member not in self.calls]

    def describe(self, rank: int) -> str:
        """The call of one member in words, with its number."""
        call = self.calls[rank]
        return str(call).replace(call.kind, f"{call.kind} #{self.number}", 1) + self.among


class CallCounter:
    """Counts each rank's calls per group, and its messages per sender and receiver."""

    def __init__(self) -> None:
        self._num_calls: Counter[Key] = Counter()

    def assign(self, rank: int, call: Call, group: Group) -> tuple[Key, Exchange]:
        """The key of the exchange that a new call belongs to, and that exchange with this call."""
        members = _members(rank, call, group)
        channel = (group.name, members, call.kind in MESSAGES)
        number = self._num_calls[(*channel, rank)]
        self._num_calls[(*channel, rank)] += 1
        return (*channel, number), Exchange(number, group, members, {rank: call})


class Matcher:
    """Puts the calls of all ranks together as they come in."""

    def __init__(self) -> None:
        self._incomplete: dict[Key, Exchange] = {}
        self._counter = CallCounter()

    def post(self, rank: int, call: Call, group: Group) -> Exchange:
        """Add the next call of a rank to its exchange, and return that.

        Raises:
            MismatchError: If another rank makes a different call in its place.
        """
        key, new = self._counter.assign(rank, call, group)
        exchange = self._incomplete.setdefault(key, new)
        exchange.calls[rank] = call
        for other, other_call in exchange.calls.items():
            if not _agree(call, other_call):
                raise MismatchError(_mismatch(exchange, *sorted((rank, other))))
        if not exchange.missing:
            del self._incomplete[key]
        return exchange


def _members(rank: int, call: Call, group: Group) -> tuple[int, ...]:
    """Who takes part: the group, or the sender and the receiver."""
    if call.kind not in MESSAGES:
        return group.members
    assert call.peer is not None
    return (rank, call.peer) if call.kind == "send" else (call.peer, rank)


def _agree(call: Call, other: Call) -> bool:
    if call.kind in MESSAGES:
        return (call.shape, call.dtype) == (other.shape, other.dtype)
    return call == other


def _mismatch(exchange: Exchange, first: int, second: int) -> str:
    """How the calls of two ranks differ, in words."""
    call, other = exchange.calls[first], exchange.calls[second]
    name = exchange.name
    if call.kind not in MESSAGES:  # they may be of two kinds, so neither names the exchange
        name = f"collective #{exchange.number}{exchange.among}"
    return f"mismatch in {name}: rank {first} calls {call}, and rank {second} {other}"


def position_in_words(last_call: str) -> str:
    """As in ``after barrier #0``, or ``before its first call`` if there was none."""
    return f"after {last_call}" if last_call else "before its first call"


def ranks_in_words(ranks: Sequence[int]) -> str:
    """As in ``rank 3``, ``ranks 0, 2`` and ``ranks 0-3, 7``."""
    runs = []
    # Number minus position is the same along a run of consecutive numbers.
    for _, run in groupby(enumerate(sorted(ranks)), key=lambda pair: pair[1] - pair[0]):
        numbers = [number for _, number in run]
        if len(numbers) > 2:
            runs.append(f"{numbers[0]}-{numbers[-1]}")
        else:
            runs.extend(map(str, numbers))
    return f"rank{'s' * (len(ranks) > 1)} {', '.join(runs)}"


def states_in_words(states: Mapping[int, str]) -> str:
    """One clause per state: ``ranks 0, 2 wait in barrier #0; rank 1 has returned``.

    Args:
        states: Of each rank; the first word is a verb of ``PLURALS``.
    """
    ranks_by_state: dict[str, list[int]] = {}
    for rank, state in states.items():
        ranks_by_state.setdefault(state, []).append(rank)
    clauses = []
    for state, ranks in ranks_by_state.items():
        verb, _, rest = state.partition(" ")
        verb = PLURALS[verb] if len(ranks) > 1 else verb
        clauses.append(f"{ranks_in_words(ranks)} {verb} {rest}")
    return "; ".join(clauses)
