"""The sandbox in which this process has submissions run: one of its own, or one that it shares."""

import atexit

from autograder.grading.errors import GradingError
from autograder.grading.sandbox import bubblewrap
from autograder.grading.sandbox.client import Client, ForkServer, GoneError
from autograder.grading.sandbox.subprocess_fallback import SubprocessFallback

Sandbox = ForkServer | SubprocessFallback

_own: dict[bool, Sandbox] = {}
_shared: list[Client | SubprocessFallback] = []


def started(is_unsafe: bool) -> Sandbox:
    """A new sandbox, which gets warm meanwhile.

    Raises:
        GradingError: If files and network cannot be shut off and nobody said that this is fine.
    """
    try:
        return SubprocessFallback() if is_unsafe else ForkServer(bubblewrap.isolated())
    except bubblewrap.NoIsolationError as error:
        raise GradingError(str(error)) from None


def when_warm(sandbox: Sandbox) -> Client | SubprocessFallback:
    """The client of a sandbox, when it is warm.

    Raises:
        GradingError: If it does not start.
    """
    try:
        sandbox.wait_until_ready()
    except GoneError as error:
        raise GradingError(str(error)) from None
    return sandbox.client


def share(client: Client | SubprocessFallback) -> None:
    """From now on this process has submissions run behind this client."""
    _shared[:] = [client]


def client(is_unsafe: bool) -> Client | SubprocessFallback:
    """The shared client, else that of a sandbox of its own; one that died is replaced.

    Raises:
        GradingError: If there is none and none starts.
    """
    if _shared:
        return _shared[0]
    known = _own.get(is_unsafe)
    if known is None or not known.is_alive:
        known = _own[is_unsafe] = started(is_unsafe)
        atexit.register(known.close)
    return when_warm(known)
