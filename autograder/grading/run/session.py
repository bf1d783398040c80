"""The requests about one submission, which survive the end of its process.

When a cell or an answer ends its process, the other cells run again in a fresh one, so that nothing
else is lost.
"""

import time
from typing import Any

from autograder.checking.plain_data import Plain
from autograder.grading.run.submission_limits import (
    MAX_CPU_SECONDS,
    MAX_PROCESSES,
    WALL_TIME_FACTOR,
    Limits,
)
from autograder.grading.sandbox.client import Conversation, GoneError
from autograder.grading.sandbox.kept_code import Fork
from autograder.grading.sandbox.process_sandbox import Sandbox


class Session:
    """One submission's processes, one after the other.

    Attributes:
        cpu_seconds: Processor time of the processes that have ended.
    """

    def __init__(self, sandbox: Sandbox, limits: Limits) -> None:
        self._sandbox, self._limits = sandbox, limits
        self._deadline = time.monotonic() + limits.total_seconds
        self._conversation: Conversation | None = None
        self._fork: Fork | None = None
        self._ran: list[dict[str, Any]] = []
        self._num_processes = 0
        self.cpu_seconds = 0.0

    def run(self, source: str) -> Plain:
        """Run a cell.

        Raises:
            GoneError: If its process ends.
        """
        seconds = self._limits.cell_seconds
        request = {"do": "run", "source": source, "seconds": seconds}
        reply = self._request(request, WALL_TIME_FACTOR * seconds)
        self._ran.append(request)
        return reply

    def ask(self, request: dict[str, Any]) -> Plain:
        """Make a request about the objects that the cells have defined.

        Raises:
            GoneError: If the process ends.
        """
        seconds = self._limits.answer_seconds
        return self._request(request | {"seconds": seconds}, WALL_TIME_FACTOR * seconds)

    def begin_anew(self, fork: Fork) -> None:
        """End the process; the next ones start without any cell.

        Args:
            fork: What they keep of the course.
        """
        self.end()
        self._fork, self._ran, self._num_processes = fork, [], 0

    def end(self) -> None:
        """End the process with all that it started."""
        if self._conversation is not None:
            self._conversation.end()
            self.cpu_seconds += self._conversation.cpu_seconds
            self._conversation = None

    def _request(self, request: dict[str, Any], seconds: float) -> Plain:
        try:
            return self._running().ask(request, self._at_most(seconds))
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
            self._conversation = self._sandbox.start_conversation(
                self._limits.child_seconds, self._fork
            )
            for request in self._ran:
                seconds = self._at_most(WALL_TIME_FACTOR * self._limits.cell_seconds)
                self._conversation.ask(request, seconds)
        return self._conversation
