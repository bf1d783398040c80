"""Requests about one submission, which go on after its process is gone.

A cell or an answer that takes its process with it costs itself only: the cells that ran before run
again in a fresh process.
"""

from typing import Any

from course_utils.checks.guard import LIMIT_SECONDS
from course_utils.checks.wire import Plain
from course_utils.grading.sandbox.door import Door, GoneError, Visit
from course_utils.grading.sandbox.inmate import CELL_SECONDS

PATIENCE = 4  # by the clock a request may take so many times its limit on the processor
MAX_LIVES = 8
MAX_CPU_SECONDS = 900.0


class Session:
    """One submission's processes, one after the other.

    Attributes:
        cpu_seconds: What the processes that have ended took.
    """

    def __init__(self, door: Door) -> None:
        """Nothing is started before the first request."""
        self._door = door
        self._visit: Visit | None = None
        self._ran: list[str] = []
        self._lives = 0
        self.cpu_seconds = 0.0

    def run(self, source: str) -> Plain:
        """Run a cell.

        Raises:
            GoneError: If its process does not survive it.
        """
        reply = self._request({"do": "run", "source": source}, CELL_SECONDS)
        self._ran.append(source)
        return reply

    def ask(self, **request: Any) -> Plain:
        """Ask something about the objects that the cells have made.

        Raises:
            GoneError: If the process does not survive it.
        """
        return self._request(request, LIMIT_SECONDS)

    def end(self) -> None:
        """End the process with all that it started."""
        if self._visit is not None:
            self._visit.end()
            self.cpu_seconds += self._visit.cpu_seconds
            self._visit = None

    def _request(self, request: dict[str, Any], seconds: float) -> Plain:
        try:
            return self._living().ask(request, PATIENCE * seconds)
        except GoneError:
            self.end()
            raise

    def _living(self) -> Visit:
        """The process that is there, or a fresh one in which the cells have run again."""
        if self._visit is None:
            self._lives += 1
            if self._lives > MAX_LIVES or self.cpu_seconds > MAX_CPU_SECONDS:
                raise GoneError("too much of this notebook ended its process or took too long")
            self._visit = self._door.visit()
            for source in self._ran:
                self._visit.ask({"do": "run", "source": source}, PATIENCE * CELL_SECONDS)
        return self._visit
