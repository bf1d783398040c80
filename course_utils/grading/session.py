"""Requests about one submission, which go on after its process is gone.

A cell or an answer that takes its process with it costs itself only: the cells that ran before run
again in a fresh process.
"""

from dataclasses import dataclass
from typing import Any

from course_utils.checks.guard import LIMIT_SECONDS
from course_utils.checks.wire import Plain
from course_utils.grading.sandbox.cold import Cold
from course_utils.grading.sandbox.door import Door, GoneError, Talk
from course_utils.grading.sandbox.frames import Reply

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

    def __init__(self, door: Door | Cold, limits: Limits) -> None:
        """Nothing is started before the first request."""
        self._door, self._limits = door, limits
        self._visit: Talk | None = None
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
        if self._visit is not None:
            self.exit_codes.append(self._visit.end())
            self.cpu_seconds += self._visit.cpu_seconds
            self._visit = None

    def _request(
        self, request: dict[str, Any], seconds: float, *, is_watched: bool = False
    ) -> Reply:
        try:
            return self._living().ask(request, seconds, is_watched=is_watched)
        except GoneError:
            self.end()
            raise

    def _living(self) -> Talk:
        """The process that is there, or a fresh one in which the cells have run again."""
        if self._visit is None:
            self._lives += 1
            if self._lives > MAX_LIVES or self.cpu_seconds > MAX_CPU_SECONDS:
                raise GoneError("too much of this notebook ended its process or took too long")
            self._visit = self._door.visit()
            for request in self._ran:
                self._visit.ask(request, PATIENCE * self._limits.cell_seconds)
        return self._visit
