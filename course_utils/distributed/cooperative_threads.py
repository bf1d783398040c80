"""Threads of which exactly one runs at a time, until it waits, fails or returns.

So a program of several threads runs the same way every time, whatever the operating system would
schedule. This includes random numbers: each thread has its own state, saved while others run.

A thread cannot be killed. To stop one, `ThreadStopped` is raised in it: where it waits, at its next
tensor operation, or anywhere in Python. Only code that swallows even that, or that blocks outside
of Python, keeps running, and then the error says so.
"""

import ctypes
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import copy_context
from threading import Event, Lock, Thread

from course_utils.distributed.call_matching import DeadlockError, TimeLimitError
from course_utils.instruments.randomness import RandomState, random_state_restored

GRACE_SECONDS = 1.0  # for threads that return by themselves after one has failed
STOP_SECONDS = 5.0  # for a thread in which `ThreadStopped` is raised
BETWEEN_STOPS_SECONDS = 0.1  # until `ThreadStopped` is raised again
POLL_SECONDS = 0.2  # between two looks at whether another thread received an interrupt


class ThreadStopped(BaseException):
    """Raised in a thread to stop it; no `except Exception` catches it."""


class CooperativeThreads:
    """Runs one function in several threads, one thread at a time.

    Attributes:
        failure: What the first thread to fail raised, or why all were stopped.
        running: The thread that runs.
    """

    def __init__(
        self,
        num_threads: int,
        seed: int,
        clock: Callable[[int], float],
        make_progress: Callable[[], bool],
        describe_states: Callable[[], str],
    ) -> None:
        """Prepare to run.

        Args:
            num_threads: Number of threads.
            seed: Thread n starts with the random seed ``seed + n``.
            clock: Of all threads that can run, the one with the smallest clock runs next.
            make_progress: Called when all wait; false if it can do nothing that unblocks one.
            describe_states: Says in words what all threads do.
        """
        self.failure: BaseException | None = None
        self._clock, self._make_progress = clock, make_progress
        self._describe_states, self._seed = describe_states, seed
        self._conditions: list[Callable[[], bool]] = [_always] * num_threads
        self._is_done = [False] * num_threads
        self._turns = [_Turn() for _ in range(num_threads)]
        self._random_states: list[RandomState] = []
        self.running, self._all_done = 0, Event()

    def run(self, work: Callable[[int], None], limit_seconds: float) -> None:
        """Call ``work(n)`` in the n-th thread, and return when no thread is left.

        Raises:
            BaseException: What the first thread to fail raised.
            DeadlockError: If all wait.
            TimeLimitError: If they do not return in time.
        """
        numbers = range(len(self._turns))
        with random_state_restored():
            self._random_states = [RandomState.seeded(self._seed + each, each) for each in numbers]
            threads = [self._new_thread(number, work) for number in numbers]
            try:
                for thread in threads:
                    thread.start()
                self._switch_to(0)
                self._wait_for_all(limit_seconds)
            except BaseException as error:
                self.fail(error)
            finally:
                with _dropped_stops_ignored():
                    self._stop(threads)
        if self.failure is not None:
            raise self.failure

    def wait_until(self, number: int, condition: Callable[[], bool]) -> None:
        """Let others run until the condition holds; called by the running thread.

        Raises:
            DeadlockError: If it can never hold.
        """
        self._conditions[number] = condition
        while not condition():
            self._random_states[number] = RandomState.now()
            self._switch_to_next()
            self._wait_for_turn(number)
        self._conditions[number] = _always

    def stop_if_failed(self) -> None:
        """Stop the running thread if one has failed.

        Raises:
            ThreadStopped: If so.
            DeadlockError: In the first thread after a deadlock.
        """
        if self.failure is None:
            return
        if isinstance(self.failure, DeadlockError) and self.failure.__traceback__ is None:
            raise self.failure  # so that its traceback shows the line of a thread that waits
        raise ThreadStopped

    def fail(self, error: BaseException) -> None:
        """Make all threads stop; the first error is the reason."""
        if self.failure is None:
            self.failure = error

    def _wait_for_all(self, limit_seconds: float) -> None:
        """Return when all are done, when time is up, or soon after a failure."""
        deadline = time.monotonic() + limit_seconds
        while not self._all_done.wait(min(POLL_SECONDS, limit_seconds)):
            if self.failure is not None:
                self._all_done.wait(GRACE_SECONDS)
                return
            if time.monotonic() >= deadline:
                states = self._describe_states()
                self.fail(TimeLimitError(f"{limit_seconds:g} s are used up: {states}"))
                return

    def _new_thread(self, number: int, work: Callable[[int], None]) -> Thread:
        arguments = (self._run_thread, number, work)
        return Thread(target=copy_context().run, args=arguments, name=f"rank {number}", daemon=True)

    def _run_thread(self, number: int, work: Callable[[int], None]) -> None:
        try:
            self._wait_for_turn(number)
            work(number)
        except ThreadStopped:
            pass
        except BaseException as error:
            self.fail(error)
        finally:
            self._is_done[number] = True
            self._switch_to_next()

    def _wait_for_turn(self, number: int) -> None:
        self._turns[number].wait()
        self._random_states[number].restore()
        self.stop_if_failed()

    def _switch_to(self, number: int) -> None:
        self.running = number
        self._turns[number].give()

    def _switch_to_next(self) -> None:
        """Let the earliest thread that can run do so; after a failure, the earliest of all."""
        left = [number for number, is_done in enumerate(self._is_done) if not is_done]
        if not left:
            self._all_done.set()
            return
        ready = self._ready(left)
        while not ready and self.failure is None and self._make_progress():
            ready = self._ready(left)
        if not ready and self.failure is None:
            self.fail(DeadlockError(f"deadlock: {self._describe_states()}"))
        self._switch_to(min(left if self.failure else ready, key=self._clock))

    def _ready(self, numbers: Sequence[int]) -> list[int]:
        return [number for number in numbers if self._conditions[number]()]

    def _stop(self, threads: Sequence[Thread]) -> None:
        """Return when no thread is left, or none that can be stopped."""
        deadline = time.monotonic() + STOP_SECONDS
        while not self._all_done.wait(BETWEEN_STOPS_SECONDS) and time.monotonic() < deadline:
            alive = [number for number, thread in enumerate(threads) if thread.is_alive()]
            if not alive:
                return
            if self.running in alive:
                _raise_in(threads[self.running])
            else:  # it was stopped before it had switched to another thread
                self._switch_to(alive[0])
        for thread in threads:
            if thread.ident is not None:
                thread.join(max(deadline - time.monotonic(), 0.1))
        alive_names = [thread.name for thread in threads if thread.is_alive()]
        if alive_names and self.failure is not None:
            self.failure.add_note(
                f"{alive_names[0]} does not stop: restart the kernel to be rid of it"
            )


class _Turn:
    """Wakes one thread that waits for it: half as dear as an `Event`, which many may wait for."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._lock.acquire()

    def wait(self) -> None:
        """Block until it is given, and take it."""
        self._lock.acquire()

    def give(self) -> None:
        """Let the thread that waits go on; twice is once."""
        with suppress(RuntimeError):
            self._lock.release()


def _always() -> bool:
    return True


@contextmanager
def _dropped_stops_ignored() -> Iterator[None]:
    """Report no `ThreadStopped` that a garbage collector's callback dropped: it is raised again."""
    hook = sys.unraisablehook

    def report(dropped: "sys.UnraisableHookArgs") -> None:
        if dropped.exc_type is not ThreadStopped:
            hook(dropped)

    sys.unraisablehook = report
    try:
        yield
    finally:
        sys.unraisablehook = hook


def _raise_in(thread: Thread) -> None:
    assert thread.ident is not None
    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(thread.ident), ctypes.py_object(ThreadStopped)
    )
