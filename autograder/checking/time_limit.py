"""Stop a call that has used up its time, with the timer signals of Linux and macOS.

value = call_within(10, lambda: answer(*sizes))
"""

import signal
import sys
import threading
import types
from collections.abc import Callable
from typing import TypeVar

Value = TypeVar("Value")

LIMIT_SECONDS = 10.0  # of processor time, for one call of an answer

# By the clock a call may take this many times its limit: it may wait, or the machine be busy.
WALL_CLOCK_FACTOR = 3

# A call that swallows the stop is stopped again and again. From the tenth time on two stops come so
# close together, by another time each, that the second one meets the `except` which has just caught
# the first, where nothing else catches it.
REPEAT_SECONDS = 0.1
PATIENT_REPEATS = 10
MICROSECONDS, IN_A_ROW = range(1, 100), 8

# Of processor time and of the clock, where the system has them.
TIMERS = (
    ((signal.ITIMER_PROF, signal.SIGPROF), (signal.ITIMER_REAL, signal.SIGALRM))
    if hasattr(signal, "setitimer")
    else ()
)


class Stopped(BaseException):
    """Raised inside a call that has used up its time; `except Exception` does not catch it."""


def call_within(seconds: float, call: Callable[[], Value]) -> Value:
    """What a call gives, or `Stopped` once its time is used up, even if it catches everything.

    There is no limit where there are no timer signals, and in threads other than the main one.

    Args:
        seconds: Processor time, so that a busy machine makes no difference; by the clock, the call
            may take `WALL_CLOCK_FACTOR` times as long.
        call: Takes nothing.

    Raises:
        Stopped: If the call did not come back in time.
    """
    if not TIMERS or threading.current_thread() is not threading.main_thread():
        return call()
    here, inside, num_stops = sys._getframe(), True, 0

    def stop(signum: int, frame: types.FrameType | None) -> None:
        nonlocal num_stops
        if not inside or frame is here:  # here the timers are set and put back
            return
        num_stops += 1
        if num_stops > PATIENT_REPEATS:
            soon = 1e-6 * MICROSECONDS[num_stops // IN_A_ROW % len(MICROSECONDS)]
            signal.setitimer(signal.ITIMER_REAL, soon, REPEAT_SECONDS)
        raise Stopped

    before = [signal.signal(number, stop) for _, number in TIMERS]
    signal.setitimer(signal.ITIMER_PROF, seconds, REPEAT_SECONDS)
    signal.setitimer(signal.ITIMER_REAL, WALL_CLOCK_FACTOR * seconds, REPEAT_SECONDS)
    try:
        return call()
    finally:
        inside = False
        for (timer, number), handler in zip(TIMERS, before, strict=True):
            signal.setitimer(timer, 0)
            signal.signal(number, handler)
