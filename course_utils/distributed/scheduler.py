"""Which rank of a virtual cluster runs next, and when does each transfer start and end?"""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from heapq import heappop, heappush, heappushpop
from typing import Any

from course_utils.distributed.call_matching import (
    Call,
    CommError,
    DeadlockError,
    Exchange,
    Group,
    Matcher,
    RankError,
    position_in_words,
    states_in_words,
)
from course_utils.distributed.cluster_run import ClusterRun, Event
from course_utils.distributed.comm import Handle
from course_utils.distributed.cooperative_threads import CooperativeThreads, ThreadStopped
from course_utils.distributed.delivery import PostedCall, Transfer
from course_utils.distributed.links import Network
from course_utils.distributed.sent_bytes import ring_sent_bytes


@dataclass(eq=False)
class Rank:
    """The state of one rank.

    Attributes:
        number: Among all ranks.
        clock: Virtual seconds since the start.
        send_free_seconds: From when on its sending lane is free.
        receive_free_seconds: From when on its receiving lane is free.
        num_calls: Calls made so far.
        log: What it did, in program order; a call is a transfer.
        waits_for: The transfer that it waits for.
        has_returned: Whether the function has returned.
        result: What the function returned.
        on_compute: Called with the seconds and the name of each compute.
        part: Name of what it computes now; empty for that of the pass.
    """

    number: int
    clock: float = 0.0
    send_free_seconds: float = 0.0
    receive_free_seconds: float = 0.0
    num_calls: int = 0
    log: list[Event | Transfer] = field(default_factory=list)
    waits_for: Transfer | None = None
    has_returned: bool = False
    result: Any = None
    on_compute: Callable[[float, str], None] | None = None
    part: str = ""

    @property
    def can_run(self) -> bool:
        """Whether it waits for nothing whose end is unknown."""
        return self.waits_for is None or self.waits_for.is_timed

    def compute(self, seconds: float, name: str) -> None:
        """Advance the clock; compute of the same name extends the last event."""
        if self.on_compute:
            self.on_compute(seconds, name)
        start = self.clock
        self.clock += seconds
        last = self.log[-1] if self.log else None
        if isinstance(last, Event) and (last.kind, last.name) == ("compute", name):
            start = last.start_seconds
            self.log.pop()
        self.log.append(Event(self.number, "compute", name, start, self.clock))

    def wait(self, transfer: Transfer) -> None:
        """Advance the clock to the end of a transfer."""
        start, self.clock = self.clock, max(self.clock, transfer.end_seconds)
        self.log.append(Event(self.number, "wait", transfer.exchange.name, start, self.clock))

    def state(self, is_running: bool) -> str:
        """What it does, in words."""
        if self.has_returned:
            return "has returned"
        if self.waits_for is not None and not self.waits_for.is_timed:
            return f"waits in {self.waits_for.exchange.describe(self.number)}"
        return f"{'runs' if is_running else 'waits for its turn'} {self.position()}"

    def position(self) -> str:
        """Where it is in its program, in words."""
        calls = [each.exchange for each in self.log if isinstance(each, Transfer)]
        return position_in_words(calls[-1].describe(self.number) if calls else "")


@dataclass(frozen=True, eq=False)
class VirtualHandle:
    """A call of a rank that is in flight."""

    scheduler: "Scheduler"
    rank: Rank
    transfer: Transfer

    def wait(self) -> None:
        """Let others run until the call is over."""
        self.scheduler.wait(self.rank, self.transfer)


RankGenerator = Generator[Handle, None, Any]
"""What a rank does, without a thread: it yields each call that it waits for."""


class Scheduler:
    """The ranks, threads and transfers of one run.

    Attributes:
        network: Model of the time that a transfer takes.
        matcher: Puts the calls of the ranks together.
        world: The group of all ranks.
        ranks: The state of each rank.
        transfers: Those that not all members have called yet.
        ready: Heap of those that all have called, by the earliest time at which they may start.
        threads: Run the ranks.
    """

    def __init__(self, num_ranks: int, network: Network, seed: int) -> None:
        self.network, self.matcher = network, Matcher()
        self.world = Group(tuple(range(num_ranks)))
        self.ranks = [Rank(number) for number in self.world.members]
        self.transfers: dict[Exchange, Transfer] = {}
        self.ready: list[tuple[float, tuple[int, int], Transfer]] = []
        self.threads = CooperativeThreads(
            num_ranks,
            seed,
            clock=lambda rank: self.ranks[rank].clock,
            make_progress=self.start_next_transfer,
            describe_states=self.describe_states,
        )

    def describe_states(self) -> str:
        """What all ranks do, in words."""
        running = self.threads.running
        return states_in_words(
            {each.number: each.state(each.number == running) for each in self.ranks}
        )

    def run(self, call: Callable[[Rank], Any], limit_seconds: float) -> None:
        """Run ``call(rank)`` for all ranks, within a limit of real seconds."""

        def work(number: int) -> None:
            rank = self.ranks[number]
            with _named_errors(rank, BaseException):
                rank.result = call(rank)
                _require_all_waited(rank)
            rank.has_returned = True

        self.threads.run(work, limit_seconds)

    def run_generators(self, generators: Sequence[RankGenerator]) -> None:
        """Run all ranks in this thread: each is a generator, which yields a call to wait for it."""
        pairs = list(zip(self.ranks, generators, strict=True))
        while left := [pair for pair in pairs if not pair[0].has_returned]:
            ready = [pair for pair in left if pair[0].can_run]
            if ready:
                self._run_until_it_waits(*min(ready, key=lambda pair: pair[0].clock))
            elif not self.start_next_transfer():
                raise DeadlockError(f"deadlock: {self.describe_states()}")

    def _run_until_it_waits(self, rank: Rank, generator: RankGenerator) -> None:
        with _named_errors(rank, Exception):  # an interrupt of this thread is no rank's error
            while rank.can_run:
                if rank.waits_for is not None:
                    self.wait(rank, rank.waits_for)
                try:
                    handle = next(generator)
                except StopIteration as end:
                    rank.result, rank.has_returned = end.value, True
                    return _require_all_waited(rank)
                assert isinstance(handle, VirtualHandle)
                rank.waits_for = handle.transfer

    def post(self, rank: Rank, call: Call, group: Group, posted: PostedCall) -> Transfer:
        """Add a call to its transfer, and return that."""
        rank.num_calls += 1
        posted.number = rank.num_calls
        with self._recording_errors():
            exchange = self.matcher.post(rank.number, call, group)
            transfer = self.transfers.setdefault(exchange, Transfer(exchange))
            transfer.add(rank.number, posted)
        if call.kind != "split":
            rank.log.append(transfer)
        if transfer.is_complete:
            del self.transfers[exchange]
            heappush(self.ready, (transfer.called_seconds, transfer.first_call, transfer))
        return transfer

    def start_next_transfer(self) -> bool:
        """Set the times of the transfer that can start first; false if there is none.

        Called only when all ranks wait, so that no later call can start before it. Of several that
        can start at the same time, the one that its first member called first does.
        """
        if not self.ready:
            return False
        start, first_call, transfer = heappop(self.ready)
        while (free := self._lanes_free(transfer)) > start:
            start, first_call, transfer = heappushpop(self.ready, (free, first_call, transfer))
        members = transfer.exchange.members
        call = transfer.exchange.calls[members[0]]
        end = start + self.network.seconds(call.kind, call.num_bytes, members)
        transfer.start_seconds, transfer.end_seconds, transfer.is_timed = start, end, True
        senders, receivers = self._senders_and_receivers(transfer)
        for each in senders:
            each.send_free_seconds = end
        for each in receivers:
            each.receive_free_seconds = end
        return True

    def _lanes_free(self, transfer: Transfer) -> float:
        """From when on all lanes that a transfer takes are free."""
        senders, receivers = self._senders_and_receivers(transfer)
        sending = [each.send_free_seconds for each in senders]
        return max(sending + [each.receive_free_seconds for each in receivers])

    def _senders_and_receivers(self, transfer: Transfer) -> tuple[list[Rank], list[Rank]]:
        ranks = [self.ranks[member] for member in transfer.exchange.members]
        return (ranks[:1], ranks[1:]) if transfer.is_message else (ranks, ranks)

    def wait(self, rank: Rank, transfer: Transfer) -> None:
        """Let others run until it is known when the transfer ends, then fill this rank's output."""
        self.threads.stop_if_failed()
        if rank.number in transfer.delivered_to:
            return
        rank.waits_for = transfer
        self.threads.wait_until(rank.number, lambda: transfer.is_timed)
        rank.waits_for = None
        if transfer.exchange.calls[rank.number].kind != "split":
            rank.wait(transfer)
        with self._recording_errors():
            transfer.deliver(rank.number)

    @contextmanager
    def _recording_errors(self) -> Iterator[None]:
        """Make an error end the run even if the function of a rank swallows it."""
        try:
            yield
        except CommError as error:
            self.threads.fail(error)
            raise

    def cluster_run(self) -> ClusterRun:
        """What all ranks returned and did."""
        events = [_event(each, rank) for rank in self.ranks for each in rank.log]
        return ClusterRun(results=[rank.result for rank in self.ranks], events=tuple(events))


@contextmanager
def _named_errors(rank: Rank, kind: type[BaseException]) -> Iterator[None]:
    """Make an error of a rank's own one that says which rank raised it, and where."""
    try:
        yield
    except (ThreadStopped, CommError):
        raise
    except kind as error:
        message = f"rank {rank.number} raised {type(error).__name__} {rank.position()}: {error}"
        raise RankError(rank.number, message) from error


def _require_all_waited(rank: Rank) -> None:
    for each in rank.log:
        if isinstance(each, Transfer) and rank.number not in each.delivered_to:
            raise CommError(
                f"rank {rank.number} returned and did not wait for "
                f"{each.exchange.describe(rank.number)}: call wait() on every handle"
            )


def _event(entry: Event | Transfer, rank: Rank) -> Event:
    if isinstance(entry, Event):
        return entry
    call, times = entry.exchange.calls[rank.number], (entry.start_seconds, entry.end_seconds)
    num_bytes = call.num_bytes, ring_sent_bytes(call, entry.exchange.members, rank.number)
    return Event(rank.number, "communication", entry.exchange.name, *times, *num_bytes)
