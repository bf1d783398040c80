"""The requests about one submission, which survive the end of its process.

When a cell or an answer ends its process, the other cells run again in a fresh one, so that nothing
else is lost.
"""

import time
from collections.abc import Collection
from typing import Any

from autograder.checking.plain_data import Plain
from autograder.grading.run.submission_limits import (
    MAX_CPU_SECONDS,
    MAX_PROCESSES,
    WALL_TIME_FACTOR,
    Limits,
)
from autograder.grading.sandbox import framing
from autograder.grading.sandbox.client import Conversation, GoneError
from autograder.grading.sandbox.framing import Reply
from autograder.grading.sandbox.process_sandbox import Sandbox


class Session:
    """One submission's processes, one after the other.

    Attributes:
        cpu_seconds: Processor time of the processes that have ended.
        exit_codes: Their exit codes.
    """

    def __init__(self, sandbox: Sandbox, limits: Limits) -> None:
        self._sandbox, self._limits = sandbox, limits
        self._deadline = time.monotonic() + limits.total_seconds
        self._conversation: Conversation | None = None
        self._ran: list[tuple[dict[str, Any], bytes]] = []
        self._num_processes = 0
        self.cpu_seconds = 0.0
        self.exit_codes: list[int] = []

    def run(self, source: str) -> Plain:
        """Run a cell.

        Raises:
            GoneError: If its process ends.
        """
        seconds = self._limits.cell_seconds
        request = {"do": "run", "source": source, "seconds": seconds}
        reply = self._request(request, WALL_TIME_FACTOR * seconds).value
        self._ran.append((request, b""))
        return reply

    def ask(self, request: dict[str, Any], *, checks_integrity: bool = False) -> Reply:
        """Make a request about the objects that the cells have defined.

        Args:
            request: What to do.
            checks_integrity: Whether the reply says what of the course's was replaced meanwhile.

        Raises:
            GoneError: If the process ends.
        """
        seconds = self._limits.answer_seconds
        limited = request | {"seconds": seconds}
        note = framing.CHECK_INTEGRITY if checks_integrity else b""
        return self._request(limited, WALL_TIME_FACTOR * seconds, note)

    def begin_anew(self, absent: Collection[str]) -> None:
        """End the process; the next ones start without any cell.

        Args:
            absent: Dotted names of what is not there in them.
        """
        self.end()
        removal = {"do": "remove", "names": sorted(absent)}
        self._ran, self._num_processes = [(removal, framing.SEAL)], 0

    def end(self) -> None:
        """End the process with all that it started."""
        if self._conversation is not None:
            self.exit_codes.append(self._conversation.end())
            self.cpu_seconds += self._conversation.cpu_seconds
            self._conversation = None

    def _request(self, request: dict[str, Any], seconds: float, note: bytes = b"") -> Reply:
        try:
            return self._running().ask(request, self._at_most(seconds), note)
        except GoneError:
            self.end()
            self._at_most(seconds)
            raise

    def _at_most(self, seconds: float) -> float:
        """How long a request may take by the clock.

        Raises:
            GoneError: If there is no time left.
        """
        left = self._deadline - time.monotonic()
        if left <= 0:
            most = self._limits.total_seconds
            raise GoneError(f"all cells and answers together take more than {most:g} seconds")
        return min(seconds, left)

    def _running(self) -> Conversation:
        """The running process, or a fresh one in which the cells have run again."""
        if self._conversation is None:
            self._num_processes += 1
            if self._num_processes > MAX_PROCESSES or self.cpu_seconds > MAX_CPU_SECONDS:
                raise GoneError("too much of this notebook ended its process or took too long")
            self._conversation = self._sandbox.start_conversation(self._limits.child_seconds)
            for request, note in self._ran:
                seconds = self._at_most(WALL_TIME_FACTOR * self._limits.cell_seconds)
                self._conversation.ask(request, seconds, note)
        return self._conversation
