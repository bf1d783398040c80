"""Threads of which exactly one runs: the others wait until it waits, fails or is done.

So whatever order the operating system would choose, a program of several threads runs the same way
each time, its random numbers included: each thread has its own, put aside while others run.

A thread cannot be killed. One that is to end gets `Stopped` raised in it: where it waits, at its
next operation on tensors, or anywhere in Python; only code that swallows even that, or that waits
outside of Python, runs on, and then the error says so.
"""

import ctypes
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import copy_context
from threading import Event, Thread

from course_utils.distributed.call_matching import DeadlockError, TimeLimitError
from course_utils.instruments.randomness import (
    RandomState,
    random_state_kept,
    seed_generators,
)

GRACE_SECONDS = 1.0  # for threads that end by themselves after one has failed
PATIENCE_SECONDS = 5.0  # for a thread that was told to end
BETWEEN_TELLINGS_SECONDS = 0.1
GLANCE_SECONDS = 0.2  # an interrupt that another thread took is seen between two glances


class Stopped(BaseException):
    """Raised in a thread that is to end; no `except Exception` catches it."""


class CooperativeThreads:
    """Runs one piece of work in several threads by turns.

    Attributes:
        failure: What the first thread to fail raised, or why all were stopped.
        holder: The thread whose turn it is.
    """

    def __init__(
        self,
        num_threads: int,
        seed: int,
        clock: Callable[[int], float],
        begin_next: Callable[[], bool],
        states: Callable[[], str],
    ) -> None:
        """Prepare to run.

        Args:
            num_threads: How many.
            seed: Thread n begins with random numbers of ``seed + n``.
            clock: Of several threads that could go on, the one with the earliest does.
            begin_next: Called when all wait: let something happen, or say that nothing can.
            states: What all of them do, in words.
        """
        self.failure: BaseException | None = None
        self._clock, self._begin_next = clock, begin_next
        self._states, self._seed = states, seed
        self._conditions: list[Callable[[], bool]] = [_always] * num_threads
        self._is_done = [False] * num_threads
        self._signals = [Event() for _ in range(num_threads)]
        self._random: list[RandomState] = []
        self.holder, self._over = 0, Event()

    def run(self, work: Callable[[int], None], limit_seconds: float) -> None:
        """Call ``work(n)`` in the n-th thread, and come back when no thread is left.

        Raises:
            BaseException: What the first thread to fail raised.
            DeadlockError: If all wait.
            TimeLimitError: If they are not done in time.
        """
        with random_state_kept():
            self._random = [self._fresh(number) for number in range(len(self._signals))]
            threads = [self._thread(number, work) for number in range(len(self._signals))]
            try:
                for thread in threads:
                    thread.start()
                self._give(0)
                self._watch(limit_seconds)
            except BaseException as error:
                self.fail(error)
            finally:
                with _told_again_in_silence():
                    self._end(threads)
        if self.failure is not None:
            raise self.failure

    def wait_until(self, number: int, condition: Callable[[], bool]) -> None:
        """Let others run until the condition holds; called by the thread that runs.

        Raises:
            DeadlockError: If it cannot come to hold.
        """
        self._conditions[number] = condition
        while not condition():
            self._random[number] = RandomState.now()
            self._pass_on()
            self._take(number)
        self._conditions[number] = _always

    def check(self) -> None:
        """End the thread that runs if all are to end.

        Raises:
            Stopped: If so.
        """
        if self.failure is None:
            return
        if isinstance(self.failure, DeadlockError) and self.failure.__traceback__ is None:
            raise self.failure  # so that it shows the line of one thread that waits
        raise Stopped

    def fail(self, error: BaseException) -> None:
        """All threads are to end, for this reason if it is the first."""
        if self.failure is None:
            self.failure = error

    def _watch(self, limit_seconds: float) -> None:
        """Come back when all are done, when their time is used up, or soon after a failure."""
        deadline = time.monotonic() + limit_seconds
        while not self._over.wait(min(GLANCE_SECONDS, limit_seconds)):
            if self.failure is not None:
                self._over.wait(GRACE_SECONDS)
                return
            if time.monotonic() >= deadline:
                self.fail(TimeLimitError(f"{limit_seconds:g} s are used up: {self._states()}"))
                return

    def _fresh(self, number: int) -> RandomState:
        seed_generators(self._seed + number)
        return RandomState.now()

    def _thread(self, number: int, work: Callable[[int], None]) -> Thread:
        arguments = (self._live, number, work)
        return Thread(target=copy_context().run, args=arguments, name=f"rank {number}", daemon=True)

    def _live(self, number: int, work: Callable[[int], None]) -> None:
        """All that one thread does."""
        try:
            self._take(number)
            work(number)
        except Stopped:
            pass
        except BaseException as error:
            self.fail(error)
        finally:
            self._is_done[number] = True
            self._pass_on()

    def _take(self, number: int) -> None:
        """Wait for this thread's turn."""
        self._signals[number].wait()
        self._signals[number].clear()
        self._random[number].restore()
        self.check()

    def _give(self, number: int) -> None:
        self.holder = number
        self._signals[number].set()

    def _pass_on(self) -> None:
        """The next turn is the earliest thread's that can go on; at the end, any one's."""
        left = [number for number, is_done in enumerate(self._is_done) if not is_done]
        if not left:
            self._over.set()
            return
        ready = self._ready(left)
        while not ready and self.failure is None and self._begin_next():
            ready = self._ready(left)
        if not ready and self.failure is None:
            self.fail(DeadlockError(f"deadlock: {self._states()}"))
        self._give(min(left if self.failure else ready, key=self._clock))

    def _ready(self, numbers: Sequence[int]) -> list[int]:
        return [number for number in numbers if self._conditions[number]()]

    def _end(self, threads: Sequence[Thread]) -> None:
        """Come back when no thread is left, or none that can be ended."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not self._over.wait(BETWEEN_TELLINGS_SECONDS) and time.monotonic() < deadline:
            alive = [number for number, thread in enumerate(threads) if thread.is_alive()]
            if not alive:
                return
            if self.holder in alive:
                _raise_in(threads[self.holder])
            else:  # it ended in the midst of passing its turn on
                self._give(alive[0])
        for thread in threads:
            if thread.ident is not None:
                thread.join(max(deadline - time.monotonic(), 0.1))
        running = [thread.name for thread in threads if thread.is_alive()]
        if running and self.failure is not None:
            self.failure.add_note(f"{running[0]} does not stop: restart the kernel to be rid of it")


def _always() -> bool:
    return True


@contextmanager
def _told_again_in_silence() -> Iterator[None]:
    """A callback of the garbage collector drops a `Stopped`; the thread is told again."""
    hook = sys.unraisablehook

    def report(dropped: "sys.UnraisableHookArgs") -> None:
        if dropped.exc_type is not Stopped:
            hook(dropped)

    sys.unraisablehook = report
    try:
        yield
    finally:
        sys.unraisablehook = hook


def _raise_in(thread: Thread) -> None:
    assert thread.ident is not None
    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(thread.ident), ctypes.py_object(Stopped)
    )
