"""Call a function in a process that is forked for this one call and thrown away.

Whatever the function reads, it takes no more memory, processor time, clock time and bytes of result
than its bounds, and leaves nothing behind. The process has everything that its parent has imported
and measured, so that a call costs milliseconds. Several threads may call at a time.
"""

import contextlib
import gc
import multiprocessing
import os
import resource
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import NoReturn

import torch

from autograder.grading.sandbox import confinement

TOO_LARGE, FAILED = 3, 4  # exit codes

_running: set[int] = set()
# No other child may be forked while a pipe has both ends here: it would keep them open.
_lock = threading.Lock()


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """What one call may take.

    Attributes:
        new_bytes: Memory beyond what its parent has.
        cpu_seconds: Processor time.
        clock_seconds: Time by the clock.
        result_bytes: Size of the result.
    """

    new_bytes: int = 3 * 2**30
    cpu_seconds: int = 300
    clock_seconds: float = 1800.0
    result_bytes: int = 2**25


class StoppedError(RuntimeError):
    """The process came to no result; the message says why, as the end of a sentence.

    Attributes:
        is_final: Whether it went beyond a bound, and so would the next time.
    """

    def __init__(self, why: str, *, is_final: bool) -> None:
        super().__init__(why)
        self.is_final = is_final


def call(function: Callable[[], bytes], bounds: Bounds) -> bytes:
    """What a function returns in a process of its own.

    Raises:
        StoppedError: If it goes beyond a bound, raises, or ends its process.
    """
    with _lock:
        ours, theirs = multiprocessing.Pipe()
        child = _fork()
        if child == 0:
            ours.close()
            _serve(theirs, function, bounds)
        theirs.close()
        _running.add(child)
    try:
        if not ours.poll(bounds.clock_seconds):
            why = f"it takes more than {bounds.clock_seconds:g} seconds"
            raise StoppedError(why, is_final=True)
        with contextlib.suppress(EOFError, OSError):
            return ours.recv_bytes()
    finally:
        ours.close()
        exit_code = _end(child)
    raise _reason(exit_code, bounds)


def _fork() -> int:
    """Fork; in the child the garbage of the parent stays where it is.

    What ends it may want a lock, as SQLite does, that another thread held at the fork and nobody in
    the child will ever open.
    """
    is_collecting = gc.isenabled()
    gc.disable()
    child = os.fork()
    if child == 0:
        gc.freeze()
    if is_collecting:
        gc.enable()
    return child


def end_all() -> None:
    """End the processes of all calls at once; these come to no result."""
    with _lock:
        for child in _running:
            os.kill(child, signal.SIGKILL)


def _end(child: int) -> int:
    """End a child at once, and give its exit code: that of its own end if that came before."""
    with _lock:
        _running.remove(child)
        os.kill(child, signal.SIGKILL)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _reason(exit_code: int, bounds: Bounds) -> StoppedError:
    if exit_code == TOO_LARGE:
        return StoppedError("it takes more memory than one submission may", is_final=True)
    if exit_code == -signal.SIGXCPU:
        why = f"it takes more than {bounds.cpu_seconds} seconds of processor time"
        return StoppedError(why, is_final=True)
    how = signal.Signals(-exit_code).name if exit_code < 0 else f"exit code {exit_code}"
    return StoppedError(f"the process that judged it ended ({how})", is_final=False)


def _serve(pipe: Connection, function: Callable[[], bytes], bounds: Bounds) -> NoReturn:
    code = FAILED
    try:
        _bind(bounds)
        threading.Thread(target=_end_with_parent, args=(pipe,), daemon=True).start()
        torch.set_num_threads(1)  # the threads of the parent are not here
        result = function()
        code = TOO_LARGE
        if len(result) <= bounds.result_bytes:
            pipe.send_bytes(result)
            code = 0
    except MemoryError:
        code = TOO_LARGE
    finally:
        os._exit(code)


def _bind(bounds: Bounds) -> None:
    """Bound this process; programs that it starts may set other bounds for themselves."""
    _limit(resource.RLIMIT_CPU, bounds.cpu_seconds)
    _limit(resource.RLIMIT_CORE, 0)
    with contextlib.suppress(OSError):  # only Linux bounds memory, and has such a preference
        _limit(resource.RLIMIT_AS, confinement.used_bytes() + bounds.new_bytes)
        confinement.prefer_for_oom_kill()


def _limit(kind: int, bound: int) -> None:
    resource.setrlimit(kind, (bound, resource.getrlimit(kind)[1]))


def _end_with_parent(pipe: Connection) -> None:
    """Exit when the other end is closed: the parent has ended, or has no use for the result."""
    with contextlib.suppress(EOFError, OSError):
        pipe.recv_bytes()
    os._exit(FAILED)
