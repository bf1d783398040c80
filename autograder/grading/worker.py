"""A process that does what it is asked, over a pipe of its own.

Where several processes share a pipe, one that is killed in the middle of a message leaves the
others waiting for ever, as those of `ProcessPoolExecutor` do in Python 3.11. Of a pipe with one
process at its end the system tells who waits that nobody is there any more.
"""

import contextlib
import multiprocessing
import signal
from collections.abc import Callable, Iterator
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from typing import Any

from autograder.grading.errors import WorkerDiedError

LOADED_ONCE = ["autograder.grading.run"]  # it imports all that a worker needs

Outcome = tuple[Any, Exception | None]


class Worker:
    """One process, forked off a server that has loaded the grader."""

    def __init__(self, begin: Callable[[], None]) -> None:
        """Start it.

        Args:
            begin: What it does first; it can be pickled.
        """
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(LOADED_ONCE)
        self._pipe, theirs = context.Pipe()
        with theirs:
            self._process = context.Process(target=_serve, args=(theirs, begin), daemon=True)
            with _no_interrupt():
                self._process.start()

    def ask(self, function: Callable[..., Any], *arguments: Any) -> Outcome:
        """What a function returns there, or the error that it raises.

        Raises:
            WorkerDiedError: If the process ends before it has answered.
        """
        try:
            self._pipe.send((function, arguments))
            outcome: Outcome = self._pipe.recv()
        except (EOFError, OSError):
            raise WorkerDiedError("the process that graded it died") from None
        return outcome

    def kill(self) -> None:
        """End it at once, whatever it is at."""
        self._process.kill()
        self._process.join()


@contextlib.contextmanager
def _no_interrupt() -> Iterator[None]:
    """Ctrl-C is for the process that writes: what is started here never sees it, nor the server."""
    resource_tracker.ensure_running()  # once, and it would let Ctrl-C through afterwards
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _serve(pipe: Connection, begin: Callable[[], None]) -> None:
    begin()
    with contextlib.suppress(EOFError, OSError):  # then nobody asks any more
        while True:
            function, arguments = pipe.recv()
            pipe.send(_outcome(function, arguments))


def _outcome(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Outcome:
    try:
        return function(*arguments), None
    except Exception as error:
        return None, error
