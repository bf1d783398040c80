"""What did each rank do, and when? Virtual seconds of compute, communication and waiting.

Communication is exposed while the rank computes nothing: only that part makes a step longer.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

from course_utils.intervals import Span, difference, length, union


class Event(NamedTuple):
    """Something that a rank did from one virtual moment to another.

    Attributes:
        rank: Number of the rank.
        kind: ``"compute"``, ``"communication"`` or ``"wait"``.
        name: ``"forward"``, ``"backward"`` or what `Comm.named` said; or the call, as in
            ``"all_reduce #3"``.
        start_seconds: Of a communication: when all ranks had called and their lanes were free.
        end_seconds: When it ended.
        num_bytes: Of a communication: what is reduced, gathered or sent, as a whole.
        sent_bytes: Of a communication: what this rank sends to others, in a ring.
    """

    rank: int
    kind: str
    name: str
    start_seconds: float
    end_seconds: float
    num_bytes: int = 0
    sent_bytes: int = 0


@dataclass(frozen=True, kw_only=True, eq=False)
class ClusterRun:
    """What a function did on all ranks of a virtual cluster.

    Attributes:
        results: What each rank returned.
        events: Rank by rank, in program order: a communication stands where it was called, and a
            wait where the rank waited for it, even if it had already ended.
    """

    results: list[Any]
    events: tuple[Event, ...]

    def __repr__(self) -> str:
        """Time, calls of rank 0, and the longest exposed communication."""
        calls = self.communications()
        exposed = max(self.exposed_seconds(rank) for rank in range(self.num_ranks))
        return (
            f"ClusterRun: {1e3 * self.step_seconds:,.2f} ms on {self.num_ranks} ranks; rank 0 "
            f"communicates {len(calls):,} times, {sum(each.num_bytes for each in calls):,} bytes; "
            f"exposed communication {1e3 * exposed:,.2f} ms"
        )

    @property
    def num_ranks(self) -> int:
        """Number of ranks."""
        return len(self.results)

    @property
    def step_seconds(self) -> float:
        """From the start to the end of the last event of all ranks."""
        return max((each.end_seconds for each in self.events), default=0.0)

    def of(self, rank: int, kind: str | None = None) -> tuple[Event, ...]:
        """Events of one rank, of one kind or all, in program order."""
        return tuple(e for e in self.events if e.rank == rank and kind in (None, e.kind))

    def communications(self, rank: int = 0) -> tuple[Event, ...]:
        """Collectives and messages of one rank, in the order of its calls."""
        return self.of(rank, "communication")

    def sent_by(self, rank: int = 0) -> tuple[Event, ...]:
        """Messages from one rank to others, in the order of its calls."""
        return tuple(e for e in self.communications(rank) if f"from rank {rank} to " in e.name)

    def sent_bytes(self, rank: int = 0) -> int:
        """Bytes that a rank sends to others, with collectives as rings of messages.

        Of S bytes among n ranks, (n-1)/n in a gather or scatter, and twice that in an all-reduce.
        """
        return sum(each.sent_bytes for each in self.communications(rank))

    def compute_seconds(self, rank: int = 0) -> float:
        """How long a rank computes."""
        return length(self.spans(rank, "compute"))

    def communication_seconds(self, rank: int = 0) -> float:
        """How long a rank communicates; overlapping messages count once."""
        return length(self.spans(rank, "communication"))

    def exposed_seconds(self, rank: int = 0) -> float:
        """How long a rank communicates while it computes nothing."""
        return length(self.exposed_spans(rank))

    def idle_seconds(self, rank: int = 0) -> float:
        """How long a rank neither computes nor communicates: it waits, or has returned."""
        return length(self.idle_spans(rank))

    def spans(self, rank: int, kind: str, name: str | None = None) -> list[Span]:
        """When a rank does something, as (start, end); spans that touch are joined."""
        events = (each for each in self.of(rank, kind) if name in (None, each.name))
        return union((each.start_seconds, each.end_seconds) for each in events)

    def exposed_spans(self, rank: int) -> list[Span]:
        """When a rank communicates while it computes nothing, as (start, end)."""
        return difference(self.spans(rank, "communication"), self.spans(rank, "compute"))

    def idle_spans(self, rank: int) -> list[Span]:
        """When a rank neither computes nor communicates, as (start, end)."""
        rest = difference([(0.0, self.step_seconds)], self.spans(rank, "compute"))
        return difference(rest, self.spans(rank, "communication"))
