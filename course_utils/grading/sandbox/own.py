"""The sandbox in which this process has submissions run: one of its own, or one that it shares."""

import atexit

from course_utils.grading.errors import GradingError
from course_utils.grading.sandbox import room
from course_utils.grading.sandbox.cold import Cold
from course_utils.grading.sandbox.door import Door, GoneError, Nursery

Sandbox = Nursery | Cold

_own: dict[bool, Sandbox] = {}
_shared: list[Door | Cold] = []


def started(is_unsafe: bool) -> Sandbox:
    """A new sandbox, which gets warm meanwhile.

    Raises:
        GradingError: If files and network cannot be shut off and nobody said that this is fine.
    """
    try:
        return Cold() if is_unsafe else Nursery(room.closed())
    except room.NoRoomError as error:
        raise GradingError(str(error)) from None


def when_warm(sandbox: Sandbox) -> Door | Cold:
    """The door of a sandbox, when it is warm.

    Raises:
        GradingError: If it does not start.
    """
    try:
        sandbox.wait_until_ready()
    except GoneError as error:
        raise GradingError(str(error)) from None
    return sandbox.door


def share(door: Door | Cold) -> None:
    """From now on this process has submissions run behind this door."""
    _shared[:] = [door]


def door(is_unsafe: bool) -> Door | Cold:
    """The shared door, else that of a sandbox of its own; one that died is replaced.

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
