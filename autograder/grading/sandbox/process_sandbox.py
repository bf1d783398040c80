"""The sandbox that this process uses for submissions: one of its own, or a shared one."""

import atexit

from autograder.grading.errors import GradingError
from autograder.grading.sandbox import bubblewrap
from autograder.grading.sandbox.client import Client, GoneError, SandboxProcess
from autograder.grading.sandbox.subprocess_fallback import SubprocessFallback

Sandbox = SandboxProcess | SubprocessFallback

_own: dict[bool, Sandbox] = {}
_shared: list[Client | SubprocessFallback] = []


def start(is_unsafe: bool) -> Sandbox:
    """Start a sandbox, which imports what it needs while the caller goes on.

    Raises:
        GradingError: If students' code cannot be isolated here, unless `is_unsafe` allows that.
    """
    try:
        return SubprocessFallback() if is_unsafe else SandboxProcess(bubblewrap.sandboxed())
    except bubblewrap.SandboxUnavailableError as error:
        raise GradingError(str(error)) from None


def ready_client(sandbox: Sandbox) -> Client | SubprocessFallback:
    """Wait until a sandbox is ready, and return its client.

    Raises:
        GradingError: If it does not start.
    """
    try:
        sandbox.wait_until_ready()
    except GoneError as error:
        raise GradingError(str(error)) from None
    return sandbox.client


def share(client: Client | SubprocessFallback) -> None:
    """Use this client for all submissions of this process."""
    _shared[:] = [client]


def client(is_unsafe: bool) -> Client | SubprocessFallback:
    """The shared client, or that of this process's own sandbox, restarted if it has died.

    Raises:
        GradingError: If no sandbox starts.
    """
    if _shared:
        return _shared[0]
    sandbox = _own.get(is_unsafe)
    if sandbox is None or not sandbox.is_alive:
        sandbox = _own[is_unsafe] = start(is_unsafe)
        atexit.register(sandbox.close)
    return ready_client(sandbox)
