"""A worker process with a pipe of its own.

When several processes share a pipe and one is killed in the middle of a message, the others wait
for ever, as in `ProcessPoolExecutor` of Python 3.11. With one process at the end of a pipe, the
kernel reports that the process is gone.
"""

import contextlib
import multiprocessing
import signal
from collections.abc import Callable, Iterator
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from typing import Any

from autograder.grading.errors import WorkerDiedError

PRELOADED = ["autograder.grading.run"]  # it imports all that a worker needs

Outcome = tuple[Any, Exception | None]


class Worker:
    """One process, forked from a server that has imported the grader."""

    def __init__(self, initializer: Callable[[], None]) -> None:
        """Start it.

        Args:
            initializer: What the process calls first; it can be pickled.
        """
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(PRELOADED)
        self._pipe, theirs = context.Pipe()
        with theirs:
            self._process = context.Process(target=_serve, args=(theirs, initializer), daemon=True)
            with _no_interrupt():
                self._process.start()

    def ask(self, function: Callable[..., Any], *arguments: Any) -> Outcome:
        """Call a function in the process; give what it returns, or the error that it raises.

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
        """End it at once, whatever it is doing."""
        self._process.kill()
        self._process.join()


@contextlib.contextmanager
def _no_interrupt() -> Iterator[None]:
    """Block Ctrl-C in what is started here, the fork server included: the parent handles it."""
    resource_tracker.ensure_running()  # starts once; later it would unblock Ctrl-C
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _serve(pipe: Connection, initializer: Callable[[], None]) -> None:
    initializer()
    with contextlib.suppress(EOFError, OSError):  # the parent has closed the pipe
        while True:
            function, arguments = pipe.recv()
            pipe.send(_outcome(function, arguments))


def _outcome(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Outcome:
    try:
        return function(*arguments), None
    except Exception as error:
        return None, error
