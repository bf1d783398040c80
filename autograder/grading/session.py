"""Requests about one submission, which go on after its process is gone.

A cell or an answer that takes its process with it costs itself only: the cells that ran before run
again in a fresh process.
"""

from dataclasses import dataclass
from typing import Any

from autograder.checking.bounded_call import LIMIT_SECONDS
from autograder.checking.plain_data import Plain
from autograder.grading.sandbox.client import Client, Conversation, GoneError
from autograder.grading.sandbox.framing import Reply
from autograder.grading.sandbox.subprocess_fallback import SubprocessFallback

PATIENCE = 4  # by the clock a request may take so many times its limit on the processor
MAX_LIVES = 8
MAX_CPU_SECONDS = 900.0


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Seconds of the processor that one cell, and an answer in one case, may take."""

    cell_seconds: float = 60.0
    answer_seconds: float = LIMIT_SECONDS


class Session:
    """One submission's processes, one after the other.

    Attributes:
        cpu_seconds: What the processes that have ended took.
        exit_codes: How they ended.
    """

    def __init__(self, client: Client | SubprocessFallback, limits: Limits) -> None:
        """Nothing is started before the first request."""
        self._client, self._limits = client, limits
        self._conversation: Conversation | None = None
        self._ran: list[dict[str, Any]] = []
        self._lives = 0
        self.cpu_seconds = 0.0
        self.exit_codes: list[int] = []

    def run(self, source: str) -> Plain:
        """Run a cell.

        Raises:
            GoneError: If its process does not survive it.
        """
        seconds = self._limits.cell_seconds
        request = {"do": "run", "source": source, "seconds": seconds}
        reply = self._request(request, PATIENCE * seconds).value
        self._ran.append(request)
        return reply

    def ask(self, request: dict[str, Any], *, is_watched: bool = False) -> Reply:
        """Ask something about the objects that the cells have made.

        Args:
            request: What is asked.
            is_watched: Whether it is to be told what was replaced meanwhile.

        Raises:
            GoneError: If the process does not survive it.
        """
        seconds = self._limits.answer_seconds
        limited = request | {"seconds": seconds}
        return self._request(limited, PATIENCE * seconds, is_watched=is_watched)

    def end(self) -> None:
        """End the process with all that it started."""
        if self._conversation is not None:
            self.exit_codes.append(self._conversation.end())
            self.cpu_seconds += self._conversation.cpu_seconds
            self._conversation = None

    def _request(
        self, request: dict[str, Any], seconds: float, *, is_watched: bool = False
    ) -> Reply:
        try:
            return self._living().ask(request, seconds, is_watched=is_watched)
        except GoneError:
            self.end()
            raise

    def _living(self) -> Conversation:
        """The process that is there, or a fresh one in which the cells have run again."""
        if self._conversation is None:
            self._lives += 1
            if self._lives > MAX_LIVES or self.cpu_seconds > MAX_CPU_SECONDS:
                raise GoneError("too much of this notebook ended its process or took too long")
            self._conversation = self._client.converse()
            for request in self._ran:
                self._conversation.ask(request, PATIENCE * self._limits.cell_seconds)
        return self._conversation
