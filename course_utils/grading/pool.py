"""Processes that grade, on this machine or on a Dask cluster, behind the same two calls."""

import multiprocessing
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Self

from course_utils.grading.errors import GradingError
from course_utils.grading.task import Graded, Task, start, ungraded, work

AHEAD = 2  # submissions that wait for each process
MAX_TRIES = 2


class Local:
    """Processes on this machine, each with a sandbox of its own; one that dies is replaced."""

    def __init__(self, jobs: int, is_unsafe: bool) -> None:
        """Say how many."""
        self.jobs, self._is_unsafe = jobs, is_unsafe

    def __enter__(self) -> Self:
        """Start the processes."""
        self.renew()
        return self

    def __exit__(self, *_: object) -> None:
        """End them; what waits is not begun."""
        self._executor.shutdown(wait=True, cancel_futures=True)

    def renew(self) -> None:
        """Start the processes, again if some died."""
        self._executor: Executor = ProcessPoolExecutor(
            self.jobs,
            mp_context=multiprocessing.get_context("spawn"),
            initializer=start,
            initargs=(self._is_unsafe,),
        )

    def submit(self, message: bytes) -> "Future[bytes]":
        """Have one submission graded."""
        return self._executor.submit(work, message)


class Dask:
    """A Dask cluster; its workers have this course installed and share no files with it."""

    def __init__(self, address: str) -> None:
        """Connect to its scheduler.

        Raises:
            GradingError: If `distributed` is missing or nobody answers there.
        """
        try:
            from distributed import Client  # noqa: PLC0415 (an optional dependency)
        except ImportError:
            raise GradingError(
                "Grading on a Dask cluster needs `distributed`: install the `dev` extra."
            ) from None
        try:
            self._client = Client(address, timeout="10s")
        except (OSError, ValueError, TypeError) as error:
            raise GradingError(
                f"No Dask scheduler answers at {address} ({error}). Start one with `dask "
                "scheduler`, and workers with `dask worker ADDRESS --nthreads 1 --no-nanny`."
            ) from None
        self._executor: Executor = self._client.get_executor(pure=False)
        self.jobs = max(1, len(self._client.scheduler_info()["workers"]))

    def __enter__(self) -> Self:
        """It runs already."""
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the cluster as it was."""
        self._executor.shutdown(wait=False)
        self._client.close()

    def renew(self) -> None:
        """Dask replaces its workers itself."""

    def submit(self, message: bytes) -> "Future[bytes]":
        """Have one submission graded."""
        return self._executor.submit(work, message)


def stream(pool: Local | Dask, tasks: Iterable[Task]) -> Iterator[Graded]:
    """Results as they come; only so many tasks are held at once, however many there are.

    Raises:
        GradingError: If the processes die before any of them has graded anything.
    """
    waiting: dict[Future[bytes], Task] = {}
    tries: Counter[str] = Counter()
    source, is_proven = iter(tasks), False
    while True:
        while len(waiting) < AHEAD * pool.jobs and (task := next(source, None)):
            waiting[pool.submit(task.to_bytes())] = task
        if not waiting:
            return
        done, _ = wait(waiting, return_when=FIRST_COMPLETED)
        if not any(isinstance(future.exception(), BrokenProcessPool) for future in done):
            for future in done:
                yield _outcome(future, waiting.pop(future))
            is_proven = True
            continue
        tries.update(task.student for task in waiting.values())
        lost = [task for task in waiting.values() if tries[task.student] > MAX_TRIES]
        if lost and not is_proven:
            raise GradingError(
                "The grading processes die as soon as they start; nothing is graded."
            )
        again = [task for task in waiting.values() if task not in lost]
        pool.renew()
        waiting = {pool.submit(task.to_bytes()): task for task in again}
        yield from (
            ungraded(task, "The process that graded it died, again and again.") for task in lost
        )


def _outcome(future: "Future[bytes]", task: Task) -> Graded:
    """The result, or no points with the reason for a person."""
    try:
        return Graded.from_bytes(future.result())
    except Exception as error:
        return ungraded(task, f"It was not graded ({type(error).__name__}: {str(error)[:300]}).")
