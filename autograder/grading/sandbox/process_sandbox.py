"""The sandbox that this process uses for all submissions."""

import atexit
import threading

from autograder.grading.sandbox import bubblewrap
from autograder.grading.sandbox.client import SandboxProcess
from autograder.grading.sandbox.subprocess_fallback import SubprocessFallback

Sandbox = SandboxProcess | SubprocessFallback

_own: dict[bool, Sandbox] = {}
_lock = threading.Lock()


def start(is_unsafe: bool) -> Sandbox:
    """Start the sandbox unless it runs; it imports what it needs while the caller goes on.

    Raises:
        GradingError: If students' code cannot be isolated here, unless `is_unsafe` allows that.
    """
    sandbox = _own.get(is_unsafe)
    if sandbox is not None and not sandbox.is_alive:
        sandbox.close()
        sandbox = None
    if sandbox is None:
        sandbox = SubprocessFallback() if is_unsafe else SandboxProcess(bubblewrap.sandboxed())
        _own[is_unsafe] = sandbox
    return sandbox


def ready(is_unsafe: bool) -> Sandbox:
    """The sandbox, which is started, or started anew if it has died, and can be used.

    Raises:
        GradingError: If it does not start.
    """
    with _lock:
        sandbox = start(is_unsafe)
        sandbox.wait_until_ready()
    return sandbox


@atexit.register
def close() -> None:
    """End the sandboxes of this process."""
    while _own:
        _own.popitem()[1].close()
