"""What did a student's function do when it was called, whatever it did?

It may return the wrong thing, raise, print megabytes, warn or never come back.
`observe_within_limits` calls it within bounds and always gives plain data: either
``{"value": ...}`` or ``{"trouble": ...}`` with what a sentence about it needs. Nothing it writes
reaches the notebook: nbgrader takes any output on stderr for a failure.
"""

import contextlib
import io
import linecache
import os
import signal
import sysconfig
import threading
import traceback
import types
from collections.abc import Callable, Iterator
from pathlib import Path

import course_utils
from autograder.checking import plain_data
from autograder.checking.plain_data import Plain

LIMIT_SECONDS = 10.0
PATIENCE = 3  # by the clock a call may take so many times its limit: it waits, or others work
AGAIN_SECONDS = 0.1
MAX_WORDS = 200

# Files that no student wrote: the course, the standard library, installed packages.
PLACES = sysconfig.get_paths()
NOT_STUDENTS = (
    str(Path(__file__).parents[1]),
    str(Path(course_utils.__file__).parent),
    *(PLACES[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")),
)


# By the processor's time and by the clock, where the system has them.
TIMERS = (
    ((signal.ITIMER_PROF, signal.SIGPROF), (signal.ITIMER_REAL, signal.SIGALRM))
    if hasattr(signal, "setitimer")
    else ()
)


class Stopped(BaseException):
    """Raised inside a call that has used up its time; `except Exception` does not catch it."""


class _Counting(io.TextIOBase):
    """A stream that forgets what is written and remembers how much."""

    characters = 0

    def write(self, text: str) -> int:
        self.characters += len(text)
        return len(text)


def observe_within_limits(
    observe: Callable[[object, Plain], object],
    student_object: object,
    case: Plain,
    limit_seconds: float = LIMIT_SECONDS,
) -> dict[str, Plain]:
    """Plain data on one call of ``observe(student_object, case)``, which may do anything.

    Args:
        observe: Uses the student's object and returns what is to be judged.
        student_object: What the student wrote.
        case: Plain data; `observe` gets a copy of its own.
        limit_seconds: The call is stopped after this time of the processor, so that a busy machine
            changes nothing, or after `PATIENCE` times as long by the clock; where the system offers
            timer signals (Linux, macOS; in the main thread).

    Returns:
        ``{"value", "printed_characters"}``, or ``{"trouble", "printed_characters", ...}`` with
        trouble one of ``unwritten``, ``raised``, ``stopped``, ``nothing``, ``not plain``.
    """
    printed = _Counting()
    result: dict[str, Plain] = {}
    try:
        with _quiet(printed), stopped_after(limit_seconds):
            value = observe(student_object, plain_data.unpack(plain_data.pack(case)))
            result = {"value": plain_data.unpack(plain_data.pack(value))}
        if value is None:
            result = {"trouble": "nothing"}
    except Stopped:
        result = {"trouble": "stopped", "seconds": limit_seconds}
    except plain_data.NotPlain as error:
        result = {"trouble": "not plain", "what": str(error)}
    except NotImplementedError:
        result = {"trouble": "unwritten"}
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        result = describe_error(error)
    return result | {"printed_characters": printed.characters}


def describe_error(error: BaseException) -> dict[str, Plain]:
    """What is told of an error: its type, its message, and the student's line it came from."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith(NOT_STUDENTS)
    ]
    line = linecache.getline(frames[-1].filename, frames[-1].lineno or 0) if frames else ""
    return {
        "trouble": "raised",
        "error": type(error).__name__,
        "message": _message(error)[:MAX_WORDS],
        "line": line.strip()[:MAX_WORDS],
    }


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return "(its message cannot be shown)"


@contextlib.contextmanager
def _quiet(printed: _Counting) -> Iterator[None]:
    """Count what Python code prints, drop what C code writes to stderr."""
    with (
        contextlib.redirect_stdout(printed),
        contextlib.redirect_stderr(printed),
        _quiet_descriptor(2),
    ):
        yield


@contextlib.contextmanager
def _quiet_descriptor(descriptor: int) -> Iterator[None]:
    try:
        kept = os.dup(descriptor)
    except OSError:  # no such stream, as in a windowed Python
        yield
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, descriptor)
        yield
    finally:
        os.dup2(kept, descriptor)
        os.close(nowhere)
        os.close(kept)


@contextlib.contextmanager
def stopped_after(seconds: float) -> Iterator[None]:
    """Raise `Stopped` in the body when its time is used up, again and again if it is swallowed."""
    if not TIMERS or threading.current_thread() is not threading.main_thread():
        yield
        return
    inside = True

    def stop(signum: int, frame: types.FrameType | None) -> None:
        if inside:
            raise Stopped

    before = [(timer, number, signal.signal(number, stop)) for timer, number in TIMERS]
    signal.setitimer(signal.ITIMER_PROF, seconds, AGAIN_SECONDS)
    signal.setitimer(signal.ITIMER_REAL, PATIENCE * seconds, AGAIN_SECONDS)
    try:
        yield
    finally:
        inside = False
        for timer, number, handler in before:
            signal.setitimer(timer, 0)
            signal.signal(number, handler)
