"""A student's code that reaches for Python's own frames, memory or objects ends its process.

The interpreter tells a hook, which nothing can take away, before it hands such things out. What
the course, torch or the standard library do on their own account is let pass.

Sources: PEP 578; Python documentation, "Audit events table".
"""

import os
import sys
import threading
from types import CodeType, FrameType
from typing import Any

from autograder.checking.bounded_call import NOT_STUDENTS

EXIT_CODE = 86
REACHING = frozenset(
    {
        "code.__new__",
        "function.__new__",
        "gc.get_objects",
        "gc.get_referents",
        "gc.get_referrers",
        "marshal.loads",
        "sys._current_exceptions",
        "sys._current_frames",
        "sys._getframe",
        "sys.setprofile",
        "sys.settrace",
    }
)
PARTS = ("tb_frame", "gi_frame", "cr_frame", "ag_frame")  # what leads from an object to a frame
RUN = ("__code__", "__defaults__", "__kwdefaults__")  # what a function runs
LENDERS = (
    "currentframe",
    "getinnerframes",
    "getouterframes",
    "stack",
    "trace",
    "walk_stack",
    "walk_tb",
)
OURS = (*NOT_STUDENTS, "<frozen")


def arm() -> None:
    """From now on, and for good, in this process and all that it forks."""
    looking: set[int] = set()  # threads in which the hook itself looks at a frame
    frame_of, thread, end = sys._getframe, threading.get_ident, os._exit
    is_reaching, is_students = _is_reaching, _is_students

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if not is_reaching(event, arguments) or thread() in looking:
            return
        looking.add(thread())
        try:
            if is_students(frame_of(1)):
                end(EXIT_CODE)
        finally:
            looking.discard(thread())

    sys.addaudithook(hook)


# What these need stands among their arguments: a module's names can be given another meaning.


def _is_reaching(  # noqa: PLR0913, PLR0917
    event: str,
    arguments: tuple[Any, ...],
    known: frozenset[str] = REACHING,
    parts: tuple[str, ...] = PARTS,
    run: tuple[str, ...] = RUN,
    ours: tuple[str, ...] = OURS,
    code: type = CodeType,
    kind_of: type = type,
) -> bool:
    if event == "object.__getattr__":
        return arguments[1] in parts
    if event == "object.__setattr__":
        return arguments[1] in run
    if event == "compile":  # under the name of a file of ours it would pass for ours
        return kind_of(arguments[1]) is kind_of("") and arguments[1].startswith(ours)
    if event == "exec":
        return kind_of(arguments[0]) is code and arguments[0].co_filename.startswith(ours)
    return event in known or event.startswith("ctypes.")


def _is_students(
    frame: FrameType | None,
    ours: tuple[str, ...] = OURS,
    lenders: tuple[str, ...] = LENDERS,
) -> bool:
    """Whether a student's line asked, itself or through what lends frames or memory."""
    while frame is not None and (
        frame.f_code.co_name in lenders or frame.f_code.co_filename.endswith("ctypes/__init__.py")
    ):
        frame = frame.f_back
    return frame is not None and not frame.f_code.co_filename.startswith(ours)
