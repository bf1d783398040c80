"""Call a student's function, whatever it does, and describe what happened in plain data.

It may return the wrong thing, raise, print megabytes, warn or never return.
`observe_within_limits` always gives plain data: either ``{"value": ...}`` or ``{"trouble": ...}``
with the details that a message needs. Nothing that Python code prints, and nothing on stderr,
reaches the notebook: nbgrader takes any output on stderr for a failure.
"""

import contextlib
import io
import linecache
import os
import sysconfig
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import course_utils
from autograder.checking import plain_data
from autograder.checking.case_objects import ArgumentChanged
from autograder.checking.plain_data import Plain
from autograder.checking.result_form import NotCounted, WrongForm
from autograder.checking.time_limit import LIMIT_SECONDS, Stopped, call_within

MAX_CHARACTERS = 200  # of a message, and of a line of code
MAX_NAME = 60  # of an error's class
NOT_WRITTEN = ("", "not written yet")  # what a stub says

# Files that no student wrote: the course, the standard library, installed packages.
NOT_STUDENTS = (
    str(Path(__file__).parents[1]),
    str(Path(course_utils.__file__).parent),
    *(sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")),
)


class _CountingStream(io.TextIOBase):
    """A stream that counts the characters written to it and drops them."""

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
    """Call ``observe(student_object, case)``, which may do anything, and describe it in plain data.

    Args:
        observe: Uses the student's object and returns what will be judged.
        student_object: What the student wrote.
        case: Plain data; `observe` gets a copy.
        limit_seconds: Processor time after which `call_within` stops the call.

    Returns:
        ``{"value", "printed_characters"}``, or ``{"trouble", "printed_characters", ...}`` with
        trouble one of ``unwritten``, ``raised``, ``changed``, ``stopped``, ``nothing``,
        ``not plain``, ``wrong form``, ``not counted``.
    """
    printed = _CountingStream()

    def described() -> dict[str, Plain]:
        try:
            value = plain_data.copied(observe(student_object, plain_data.copied(case)))
        except (Stopped, KeyboardInterrupt):
            raise
        except BaseException as error:  # what it says of itself is a student's code, too
            return _trouble(error)
        return {"trouble": "nothing"} if value is None else {"value": value}

    try:
        with _silenced(printed):
            result = call_within(limit_seconds, described)
    except Stopped:
        result = {"trouble": "stopped", "seconds": limit_seconds}
    return result | {"printed_characters": printed.characters}


def _trouble(error: BaseException) -> dict[str, Plain]:
    """What became of a call that raised."""
    if isinstance(error, plain_data.NotPlain):
        return {"trouble": "not plain", "what": str(error)}
    if isinstance(error, NotCounted):
        return {"trouble": "not counted", "what": str(error)}
    if isinstance(error, ArgumentChanged):
        return {"trouble": "changed", "name": str(error)}
    return {"trouble": "unwritten"} if is_unwritten(error) else describe_error(error)


def is_unwritten(error: BaseException) -> bool:
    """Whether a stub raised the error; torch raises `NotImplementedError`, too, and says why."""
    return isinstance(error, NotImplementedError) and _message(error) in NOT_WRITTEN


def describe_error(error: BaseException) -> dict[str, Plain]:
    """The type of an error, its message, and the student's line that it came from.

    Of a result of the wrong form, which no line raised: what was wanted, and what came.
    """
    if isinstance(error, WrongForm):
        return {"trouble": "wrong form", "wanted": error.wanted, "came": error.came}
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith(NOT_STUDENTS)
    ]
    line = linecache.getline(frames[-1].filename, frames[-1].lineno or 0) if frames else ""
    return {
        "trouble": "raised",
        "error": type(error).__name__[:MAX_NAME],
        "message": _message(error)[:MAX_CHARACTERS],
        "line": line.strip()[:MAX_CHARACTERS],
    }


def _message(error: BaseException) -> str:
    try:
        return "".join(str(error))  # a string, whatever class of strings it gives
    except (Exception, SystemExit):
        return "(its message cannot be shown)"


@contextlib.contextmanager
def _silenced(printed: _CountingStream) -> Iterator[None]:
    """Count what Python code prints, and drop what C code writes to stderr."""
    with (
        contextlib.redirect_stdout(printed),
        contextlib.redirect_stderr(printed),
        _silenced_descriptor(2),
    ):
        yield


@contextlib.contextmanager
def _silenced_descriptor(descriptor: int) -> Iterator[None]:
    try:
        original = os.dup(descriptor)
    except OSError:  # no such stream, as in a windowed Python
        yield
        return
    null = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(null, descriptor)
        yield
    finally:
        os.dup2(original, descriptor)
        os.close(null)
        os.close(original)
