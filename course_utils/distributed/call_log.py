"""The calls of each rank process, logged so that a deadlock or a mismatch can be found.

A rank writes one line before each call, and one before and after each wait. The logs of all ranks
tell which calls differ and who waits for whom, even if a process was killed.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import IO, NamedTuple

from course_utils.distributed.call_matching import (
    Call,
    CallCounter,
    CommError,
    Exchange,
    Group,
    Matcher,
    position_in_words,
)


class CallLog:
    """The calls of one rank that it has not waited for, also written to a file if one is given.

    Attributes:
        rank: The rank that calls.
        last_call: Its last call in words; empty before the first.
    """

    def __init__(self, rank: int, file: IO[bytes] | None = None) -> None:
        """Start an empty log.

        Args:
            rank: The rank that calls.
            file: Takes the lines; unbuffered, so that they survive if the process is killed.
        """
        self.rank, self.last_call = rank, ""
        self._file, self._counter = file, CallCounter()
        self._num_calls, self._open = 0, dict[int, str]()

    def record(self, call: Call, group: Group) -> tuple[int, Exchange]:
        """Log a call that is about to be made.

        Returns:
            The call's number in this log, and its exchange, which holds this call only.
        """
        _, exchange = self._counter.assign(self.rank, call, group)
        number, self.last_call = self._num_calls, exchange.describe(self.rank)
        self._num_calls += 1
        self._open[number] = self.last_call
        self._write({"call": asdict(call), "group": asdict(group)})
        return number, exchange

    def begin_wait(self, number: int) -> None:
        """Log that the rank is about to wait for a call."""
        self._open.pop(number, None)
        self._write({"wait": number})

    def end_wait(self) -> None:
        """Log that the wait is over."""
        self._write({"wait": None})

    def require_all_waited(self) -> None:
        """Require that the rank has waited for all its calls.

        Raises:
            CommError: If one may still be in flight.
        """
        for call in self._open.values():
            raise CommError(
                f"rank {self.rank} returned and did not wait for {call}: call wait() on every "
                f"handle"
            )

    def _write(self, entry: dict[str, object]) -> None:
        if self._file is not None:
            self._file.write(json.dumps(entry).encode() + b"\n")


class RankHistory(NamedTuple):
    """What the call log of one rank says so far.

    Attributes:
        calls: In order, each with its group.
        waits_for: Number of the call that the rank waits for now.
        has_started: Whether there is a log.
    """

    calls: list[tuple[Call, Group]]
    waits_for: int | None
    has_started: bool


def read_call_log(path: Path) -> RankHistory:
    """What a rank has written so far, without a last line that is incomplete."""
    if not path.exists():
        return RankHistory([], None, False)
    calls, waits_for = [], None
    for line in path.read_bytes().split(b"\n")[:-1]:
        entry = json.loads(line)
        if "call" in entry:
            entry["call"]["shape"] = tuple(entry["call"]["shape"])
            entry["group"]["members"] = tuple(entry["group"]["members"])
            calls.append((Call(**entry["call"]), Group(**entry["group"])))
        else:
            waits_for = entry["wait"]
    return RankHistory(calls, waits_for, True)


class JobStatus(NamedTuple):
    """What all ranks are doing.

    Attributes:
        states: Of each rank, in words.
        is_deadlocked: Whether every rank that has not returned waits for a call nobody will make.
    """

    states: dict[int, str]
    is_deadlocked: bool


def job_status(histories: Sequence[RankHistory], returned: Sequence[int]) -> JobStatus:
    """What all ranks are doing, according to their call logs.

    Args:
        histories: Of each rank.
        returned: Ranks that have returned.

    Raises:
        MismatchError: If calls that belong together differ.
    """
    matcher = Matcher()
    exchanges = [
        [matcher.post(rank, call, group) for call, group in history.calls]
        for rank, history in enumerate(histories)
    ]
    states, num_blocked = {}, 0
    for rank, history in enumerate(histories):
        if rank in returned:
            states[rank] = "has returned"
        elif history.waits_for is not None:
            waits_for = exchanges[rank][history.waits_for]
            states[rank] = f"waits in {waits_for.describe(rank)}"
            num_blocked += bool(waits_for.missing)
        elif history.has_started:
            last_call = exchanges[rank][-1].describe(rank) if exchanges[rank] else ""
            states[rank] = f"runs {position_in_words(last_call)}"
        else:
            states[rank] = "starts up"
    num_running = len(histories) - len(returned)
    return JobStatus(states, is_deadlocked=0 < num_running == num_blocked)
