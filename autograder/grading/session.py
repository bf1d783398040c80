"""The requests about one submission, which survive the end of its process.

When a cell or an answer ends its process, the other cells run again in a fresh one, so that nothing
else is lost.
"""

from dataclasses import dataclass
from typing import Any

from autograder.checking.plain_data import Plain
from autograder.checking.time_limit import LIMIT_SECONDS
from autograder.grading.sandbox.client import Client, Conversation, GoneError
from autograder.grading.sandbox.framing import Reply
from autograder.grading.sandbox.subprocess_fallback import SubprocessFallback

WALL_TIME_FACTOR = 4  # how many times its processor time a request may take by the clock
MAX_PROCESSES = 8
MAX_CPU_SECONDS = 900.0


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Processor seconds that one cell, and an answer in one case, may take."""

    cell_seconds: float = 60.0
    answer_seconds: float = LIMIT_SECONDS


class Session:
    """One submission's processes, one after the other.

    Attributes:
        cpu_seconds: Processor time of the processes that have ended.
        exit_codes: Their exit codes.
    """

    def __init__(self, client: Client | SubprocessFallback, limits: Limits) -> None:
        """Start nothing before the first request."""
        self._client, self._limits = client, limits
        self._conversation: Conversation | None = None
        self._ran: list[dict[str, Any]] = []
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
        self._ran.append(request)
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
        return self._request(limited, WALL_TIME_FACTOR * seconds, checks_integrity=checks_integrity)

    def end(self) -> None:
        """End the process with all that it started."""
        if self._conversation is not None:
            self.exit_codes.append(self._conversation.end())
            self.cpu_seconds += self._conversation.cpu_seconds
            self._conversation = None

    def _request(
        self, request: dict[str, Any], seconds: float, *, checks_integrity: bool = False
    ) -> Reply:
        try:
            return self._running().ask(request, seconds, checks_integrity=checks_integrity)
        except GoneError:
            self.end()
            raise

    def _running(self) -> Conversation:
        """The running process, or a fresh one in which the cells have run again."""
        if self._conversation is None:
            self._num_processes += 1
            if self._num_processes > MAX_PROCESSES or self.cpu_seconds > MAX_CPU_SECONDS:
                raise GoneError("too much of this notebook ended its process or took too long")
            self._conversation = self._client.start_conversation()
            for request in self._ran:
                self._conversation.ask(request, WALL_TIME_FACTOR * self._limits.cell_seconds)
        return self._conversation
