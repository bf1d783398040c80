"""The ranks of a virtual cluster: their clocks and lanes, whose turn it is, who waits for what."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from heapq import heappop, heappush, heappushpop
from typing import Any

import torch

from course_utils.distributed.call_matching import (
    Call,
    CommError,
    Exchange,
    Group,
    Matcher,
    RankError,
    states_in_words,
)
from course_utils.distributed.cluster_run import ClusterRun, Event
from course_utils.distributed.cooperative_threads import CooperativeThreads, Stopped
from course_utils.distributed.delivery import Post, Transfer
from course_utils.distributed.links import Network


@dataclass(eq=False)
class Rank:
    """Where one rank stands."""

    number: int
    clock: float = 0.0
    send_free: float = 0.0
    receive_free: float = 0.0
    num_calls: int = 0
    log: list[Event | Transfer] = field(default_factory=list)
    waits_for: Transfer | None = None
    has_returned: bool = False
    result: Any = None

    def compute(self, seconds: float) -> None:
        """Move the clock, in one event with what was computed right before."""
        is_backward = torch._C._current_graph_task_id() != -1
        name, start = "backward" if is_backward else "forward", self.clock
        self.clock += seconds
        last = self.log[-1] if self.log else None
        if isinstance(last, Event) and (last.kind, last.name) == ("compute", name):
            start = last.start_seconds
            self.log.pop()
        self.log.append(Event(self.number, "compute", name, start, self.clock))

    def wait(self, transfer: Transfer) -> None:
        """Move the clock to the end of a transfer."""
        start, self.clock = self.clock, max(self.clock, transfer.end_seconds)
        self.log.append(Event(self.number, "wait", transfer.exchange.name, start, self.clock))

    def state(self, has_turn: bool) -> str:
        """What it does, in words."""
        if self.has_returned:
            return "has returned"
        if self.waits_for is not None and not self.waits_for.is_timed:
            return f"waits in {self.waits_for.exchange.of(self.number)}"
        return f"runs {self.place()}" if has_turn else f"waits for its turn {self.place()}"

    def place(self) -> str:
        """The last call that it made, in words."""
        calls = [each for each in self.log if isinstance(each, Transfer)]
        return f"after {calls[-1].exchange.of(self.number)}" if calls else "before its first call"


class Scheduler:
    """The ranks of one run, their turns and their transfers."""

    def __init__(self, num_ranks: int, network: Network, seed: int) -> None:
        """Set all clocks to zero."""
        self.network, self.matcher = network, Matcher()
        self.world = Group(tuple(range(num_ranks)))
        self.ranks = [Rank(number) for number in self.world.members]
        self.transfers: dict[Exchange, Transfer] = {}
        self.ready: list[tuple[float, tuple[int, int], Transfer]] = []
        self.turns = CooperativeThreads(
            num_ranks, seed, lambda rank: self.ranks[rank].clock, self.begin_next, self.states
        )

    def states(self) -> str:
        """What all ranks do, in words."""
        holder = self.turns.holder
        return states_in_words(
            {each.number: each.state(each.number == holder) for each in self.ranks}
        )

    def run(self, call: Callable[[Rank], Any], limit_seconds: float) -> None:
        """Run all ranks to their end, in at most so many real seconds."""

        def work(number: int) -> None:
            rank = self.ranks[number]
            try:
                rank.result = call(rank)
                _require_all_waited(rank)
            except (Stopped, CommError):
                raise
            except BaseException as error:
                raise RankError(number, _raised(rank, error)) from error
            rank.has_returned = True

        self.turns.run(work, limit_seconds)

    def post(self, rank: Rank, call: Call, group: Group, post: Post) -> Transfer:
        """Take in a call."""
        rank.num_calls += 1
        post.number = rank.num_calls
        with self._recording_errors():
            exchange = self.matcher.post(rank.number, call, group)
            transfer = self.transfers.setdefault(exchange, Transfer(exchange))
            transfer.add(rank.number, post)
        if call.kind != "split":
            rank.log.append(transfer)
        if transfer.is_complete:
            del self.transfers[exchange]
            heappush(self.ready, (transfer.called_seconds, transfer.first_call, transfer))
        return transfer

    def begin_next(self) -> bool:
        """Set the times of the transfer that can begin first, if there is one.

        Called when all ranks wait, since what they call later cannot begin before it. Of several
        that can begin at one time it is the one that its first rank called first.
        """
        if not self.ready:
            return False
        start, number, transfer = heappop(self.ready)
        while (free := self._lanes_free(transfer)) > start:
            start, number, transfer = heappushpop(self.ready, (free, number, transfer))
        members = transfer.exchange.members
        call = transfer.exchange.calls[members[0]]
        end = start + self.network.seconds(call.kind, call.num_bytes, members)
        transfer.start_seconds, transfer.end_seconds, transfer.is_timed = start, end, True
        senders, receivers = self._ends(transfer)
        for each in senders:
            each.send_free = end
        for each in receivers:
            each.receive_free = end
        return True

    def _lanes_free(self, transfer: Transfer) -> float:
        """From when on the lanes that a transfer takes are free."""
        senders, receivers = self._ends(transfer)
        sending = [each.send_free for each in senders]
        return max(sending + [each.receive_free for each in receivers])

    def _ends(self, transfer: Transfer) -> tuple[list[Rank], list[Rank]]:
        """Ranks whose lane for sending a transfer takes, and those whose lane for receiving."""
        ranks = [self.ranks[member] for member in transfer.exchange.members]
        return (ranks[:1], ranks[1:]) if transfer.is_message else (ranks, ranks)

    def wait(self, rank: Rank, transfer: Transfer) -> None:
        """Let others run until it is known when the transfer ends, and fill this rank's tensor."""
        self.turns.check()
        if rank.number in transfer.waited:
            return
        rank.waits_for = transfer
        self.turns.wait_until(rank.number, lambda: transfer.is_timed)
        rank.waits_for = None
        if transfer.exchange.calls[rank.number].kind != "split":
            rank.wait(transfer)
        with self._recording_errors():
            transfer.deliver(rank.number)

    @contextmanager
    def _recording_errors(self) -> Iterator[None]:
        """They end the run, also where the function of a rank swallows them."""
        try:
            yield
        except CommError as error:
            self.turns.fail(error)
            raise

    def outcome(self) -> ClusterRun:
        """What all ranks returned and did."""
        events = [_event(each, rank) for rank in self.ranks for each in rank.log]
        return ClusterRun(results=[rank.result for rank in self.ranks], events=tuple(events))


def _require_all_waited(rank: Rank) -> None:
    for each in rank.log:
        if isinstance(each, Transfer) and rank.number not in each.waited:
            raise CommError(
                f"rank {rank.number} returned and did not wait for "
                f"{each.exchange.of(rank.number)}: call wait() on every handle"
            )


def _raised(rank: Rank, error: BaseException) -> str:
    return f"rank {rank.number} raised {type(error).__name__} {rank.place()}: {error}"


def _event(entry: Event | Transfer, rank: Rank) -> Event:
    if isinstance(entry, Event):
        return entry
    num_bytes = entry.exchange.calls[rank.number].num_bytes
    times = entry.start_seconds, entry.end_seconds
    return Event(rank.number, "communication", entry.exchange.name, *times, num_bytes)
