"""Stop a call that has used up its time, with the timer signals of Linux and macOS.

value = call_within(10, lambda: answer(*sizes))
"""

import signal
import sys
import threading
import time
import types
from collections.abc import Callable
from typing import TypeVar

Value = TypeVar("Value")

LIMIT_SECONDS = 10.0  # of processor time, for one call of an answer

# By the clock a call may take this many times its limit: it may wait, or the machine be busy.
WALL_CLOCK_FACTOR = 3

# A call that swallows the stop is stopped again and again. After ten stops, two follow each other
# closely, at a gap that varies, so that the second hits the `except` that just caught the first.
REPEAT_SECONDS = 0.1
PATIENT_STOPS = 10
LEAST_SECONDS = 1e-6
GAPS_MICROSECONDS, STOPS_PER_GAP = range(1, 100), 8

# A module that is stopped half-way stays broken until the kernel is restarted, and what needs it
# fails for good. So an import that goes on when the time is up has the same time again, so often.
PATIENT_IMPORTS = 10
IMPORTING = "<frozen importlib._bootstrap>"

# Of processor time and of the clock, where the system has them.
TIMERS = (
    ((signal.ITIMER_PROF, signal.SIGPROF), (signal.ITIMER_REAL, signal.SIGALRM))
    if hasattr(signal, "setitimer")
    else ()
)


class Stopped(BaseException):
    """Raised inside a call that has used up its time; `except Exception` does not catch it."""


def call_within(
    seconds: float, call: Callable[[], Value], *, takes_late_value: bool = False
) -> Value:
    """What a call gives in its time; else `Stopped`, whatever it catches.

    There is no limit where there are no timer signals, and in threads other than the main one. A
    limit within a limit leaves the outer one as it was.

    Args:
        seconds: Processor time, more than none, so that a busy machine makes no difference; by the
            clock, the call may take `WALL_CLOCK_FACTOR` times as long.
        call: Takes nothing.
        takes_late_value: Whether a value counts that a call gives after it was stopped: a shell
            catches the stop of its cell, and its outputs say so.

    Raises:
        Stopped: If the call did not come back in time, or came with a late value.
    """
    if not TIMERS or threading.current_thread() is not threading.main_thread():
        return call()
    here, inside, num_stops, num_waits = sys._getframe(), True, 0, 0

    def stop(signum: int, frame: types.FrameType | None) -> None:
        nonlocal num_stops, num_waits
        if not inside or frame is here:  # here the timers are set and put back
            return
        if num_waits < PATIENT_IMPORTS and _is_importing(frame, here):
            num_waits += 1
            set_timers()
            return
        num_stops += 1
        if num_stops > PATIENT_STOPS:
            soon = 1e-6 * GAPS_MICROSECONDS[num_stops // STOPS_PER_GAP % len(GAPS_MICROSECONDS)]
            signal.setitimer(signal.ITIMER_REAL, soon, REPEAT_SECONDS)
        raise Stopped

    def set_timers() -> list[tuple[float, float]]:
        limits = (seconds, WALL_CLOCK_FACTOR * seconds)
        return [
            signal.setitimer(timer, limit, REPEAT_SECONDS)
            for (timer, _), limit in zip(TIMERS, limits, strict=True)
        ]

    handlers = [signal.signal(number, stop) for _, number in TIMERS]
    begun = time.monotonic()
    outer = set_timers()
    try:
        value = call()
    finally:
        inside = False
        for (timer, number), handler, (left, repeat) in zip(TIMERS, handlers, outer, strict=True):
            signal.setitimer(timer, 0)
            signal.signal(number, handler)
            if left:  # an outer limit goes on, less the time taken since
                taken = time.monotonic() - begun
                signal.setitimer(timer, max(left - taken, LEAST_SECONDS), repeat)
    if num_stops and not takes_late_value:
        raise Stopped
    return value


def _is_importing(frame: types.FrameType | None, outer: types.FrameType) -> bool:
    """Whether a module is being imported, as seen from a frame up to an outer one."""
    while frame is not None and frame is not outer:
        if frame.f_code.co_filename == IMPORTING:
            return True
        frame = frame.f_back
    return False
