"""What did each process call, and in which call does it wait? Written down before it happens.

A rank writes a line before each call, before it waits and after. So whoever reads the journals of
all ranks knows which calls differ, and who waits for whom, even of a process that was killed.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import IO, NamedTuple

from course_utils.distributed.call_matching import (
    Call,
    CommError,
    Exchange,
    Group,
    Matcher,
    Numbering,
)


class CallLog:
    """The calls of one rank, as far as they are not over, and in a file if there is one.

    Attributes:
        rank: Whose.
        last: Its last call.
    """

    def __init__(self, rank: int, file: IO[bytes] | None = None) -> None:
        """Begin empty.

        Args:
            rank: Whose.
            file: Takes lines; without a buffer, so that each line is there at once.
        """
        self.rank, self.last = rank, ""
        self._file, self._numbering = file, Numbering()
        self._num_calls, self._open = 0, dict[int, str]()

    def call(self, call: Call, group: Group) -> tuple[int, Exchange]:
        """Number of a call that is about to be made, and its place among all."""
        _, exchange = self._numbering.place(self.rank, call, group)
        number, self.last = self._num_calls, exchange.of(self.rank)
        self._num_calls += 1
        self._open[number] = self.last
        self._write({"call": asdict(call), "group": asdict(group)})
        return number, exchange

    def wait(self, number: int) -> None:
        """The rank is about to wait."""
        self._open.pop(number, None)
        self._write({"wait": number})

    def go_on(self) -> None:
        """The rank has waited."""
        self._write({"wait": None})

    def place(self) -> str:
        """The last call, in words."""
        return f"after {self.last}" if self.last else "before its first call"

    def require_all_waited(self) -> None:
        """Refuse calls that may still be under way.

        Raises:
            CommError: If there is one.
        """
        for call in self._open.values():
            raise CommError(
                f"rank {self.rank} returned and did not wait for {call}: call wait() on every "
                f"handle"
            )

    def _write(self, entry: dict[str, object]) -> None:
        if self._file is not None:
            self._file.write(json.dumps(entry).encode() + b"\n")


class Reading(NamedTuple):
    """The journal of one rank as it is now.

    Attributes:
        calls: In order, each with its group.
        waits_for: Number of the call in which it waits.
        is_there: Whether the rank has begun.
    """

    calls: list[tuple[Call, Group]]
    waits_for: int | None
    is_there: bool


def read_call_log(path: Path) -> Reading:
    """What a rank has written so far; a line that is not whole is left out."""
    if not path.exists():
        return Reading([], None, False)
    calls, waits_for = [], None
    for line in path.read_bytes().split(b"\n")[:-1]:
        entry = json.loads(line)
        if "call" in entry:
            entry["call"]["shape"] = tuple(entry["call"]["shape"])
            entry["group"]["members"] = tuple(entry["group"]["members"])
            calls.append((Call(**entry["call"]), Group(**entry["group"])))
        else:
            waits_for = entry["wait"]
    return Reading(calls, waits_for, True)


class Situation(NamedTuple):
    """Where all ranks stand.

    Attributes:
        states: Of each rank, in words.
        is_stuck: Whether all that have not returned wait for calls that nobody will make.
    """

    states: dict[int, str]
    is_stuck: bool


def situation(readings: Sequence[Reading], returned: Sequence[int]) -> Situation:
    """Where all ranks stand, by their journals.

    Args:
        readings: Of each rank.
        returned: Ranks that are done.

    Raises:
        MismatchError: If calls that belong together differ.
    """
    matcher = Matcher()
    exchanges = [
        [matcher.post(rank, call, group) for call, group in reading.calls]
        for rank, reading in enumerate(readings)
    ]
    states, blocked = {}, []
    for rank, reading in enumerate(readings):
        made = exchanges[rank]
        if rank in returned:
            states[rank] = "has returned"
        elif reading.waits_for is not None:
            waits_for = made[reading.waits_for]
            states[rank] = f"waits in {waits_for.of(rank)}"
            blocked += [rank] if waits_for.missing else []
        elif reading.is_there:
            last = f"after {made[-1].of(rank)}" if made else "before its first call"
            states[rank] = f"runs {last}"
        else:
            states[rank] = "starts up"
    num_left = len(readings) - len(returned)
    return Situation(states, 0 < num_left == len(blocked))
