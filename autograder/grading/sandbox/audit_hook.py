"""An audit hook that ends the process when a student's code reaches for frames, memory or code.

The interpreter calls the hook before it hands such things out, and nothing can remove the hook. The
course, torch and the standard library may use them on their own account.

Sources: PEP 578; Python documentation, "Audit events table".
"""

import os
import sys
import threading
from types import CodeType, FrameType
from typing import Any

from autograder.checking.bounded_call import NOT_STUDENTS

EXIT_CODE = 86
FORBIDDEN_EVENTS = frozenset(
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
FRAME_ATTRIBUTES = ("tb_frame", "gi_frame", "cr_frame", "ag_frame")
CODE_ATTRIBUTES = ("__code__", "__defaults__", "__kwdefaults__")
# Functions of the standard library that hand frames to their caller.
FRAME_HELPERS = (
    "currentframe",
    "getinnerframes",
    "getouterframes",
    "stack",
    "trace",
    "walk_stack",
    "walk_tb",
)
PASSED_ON = ("gc", "sys")  # modules whose functions other code may call on behalf of a student
OURS = (*NOT_STUDENTS, "<frozen")


def install() -> None:
    """Install the hook, for good, in this process and all that it forks."""
    active: set[int] = set()  # threads in which the hook itself looks at a frame
    frame_of, thread, end = sys._getframe, threading.get_ident, os._exit
    is_forbidden, is_students = _is_forbidden, _is_students

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if not is_forbidden(event, arguments) or thread() in active:
            return
        active.add(thread())
        try:
            if is_students(frame_of(1), event):
                end(EXIT_CODE)
        finally:
            active.discard(thread())

    sys.addaudithook(hook)


# Their constants are default arguments, since a student's code could rebind global names.


def _is_forbidden(  # noqa: PLR0913, PLR0917
    event: str,
    arguments: tuple[Any, ...],
    forbidden: frozenset[str] = FORBIDDEN_EVENTS,
    frame_attributes: tuple[str, ...] = FRAME_ATTRIBUTES,
    code_attributes: tuple[str, ...] = CODE_ATTRIBUTES,
    ours: tuple[str, ...] = OURS,
    code: type = CodeType,
    kind_of: type = type,
) -> bool:
    if event == "object.__getattr__":
        return arguments[1] in frame_attributes
    if event == "object.__setattr__":
        return arguments[1] in code_attributes
    if event == "compile":  # under the name of our file it would pass for ours
        return kind_of(arguments[1]) is kind_of("") and arguments[1].startswith(ours)
    if event == "exec":
        return kind_of(arguments[0]) is code and arguments[0].co_filename.startswith(ours)
    return event in forbidden or event.startswith("ctypes.")


def _is_students(
    frame: FrameType | None,
    event: str = "",
    ours: tuple[str, ...] = OURS,
    helpers: tuple[str, ...] = FRAME_HELPERS,
    passed_on: tuple[str, ...] = PASSED_ON,
) -> bool:
    """Whether a student's line asked, directly or through a helper for frames or memory.

    Code that does not name the function has been given it, as `copy` by a `__reduce_ex__`.
    """
    owner, _, name = event.rpartition(".")
    is_named = owner in passed_on
    while frame is not None and (
        frame.f_code.co_name in helpers
        or frame.f_code.co_filename.endswith("ctypes/__init__.py")
        or (
            is_named
            and name not in frame.f_code.co_names
            and frame.f_code.co_filename.startswith(ours)
        )
    ):
        frame = frame.f_back
    return frame is not None and not frame.f_code.co_filename.startswith(ours)
