"""Stop a call that has used up its time, with the timer signals of Linux and macOS.

with stopped_after(seconds=10):
    answer(*sizes)
"""

import contextlib
import signal
import threading
import types
from collections.abc import Iterator

LIMIT_SECONDS = 10.0  # of processor time, for one call of an answer

# By the clock a call may take this many times its limit: it may wait, or the machine be busy.
WALL_CLOCK_FACTOR = 3
REPEAT_SECONDS = 0.1

# Of processor time and of the clock, where the system has them.
TIMERS = (
    ((signal.ITIMER_PROF, signal.SIGPROF), (signal.ITIMER_REAL, signal.SIGALRM))
    if hasattr(signal, "setitimer")
    else ()
)


class Stopped(BaseException):
    """Raised inside a call that has used up its time; `except Exception` does not catch it."""


@contextlib.contextmanager
def stopped_after(seconds: float) -> Iterator[None]:
    """Raise `Stopped` in the body when its time is used up, again and again if it is swallowed.

    Does nothing where there are no timer signals, and in threads other than the main one.

    Args:
        seconds: Processor time, so that a busy machine makes no difference; by the clock, the body
            may take `WALL_CLOCK_FACTOR` times as long.
    """
    if not TIMERS or threading.current_thread() is not threading.main_thread():
        yield
        return
    inside = True

    def stop(signum: int, frame: types.FrameType | None) -> None:
        if inside:
            raise Stopped

    before = [(timer, number, signal.signal(number, stop)) for timer, number in TIMERS]
    signal.setitimer(signal.ITIMER_PROF, seconds, REPEAT_SECONDS)
    signal.setitimer(signal.ITIMER_REAL, WALL_CLOCK_FACTOR * seconds, REPEAT_SECONDS)
    try:
        yield
    finally:
        inside = False
        for timer, number, handler in before:
            signal.setitimer(timer, 0)
            signal.signal(number, handler)
