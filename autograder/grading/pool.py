"""Processes that grade, on this machine or on a Dask cluster, behind the same calls."""

import contextlib
import multiprocessing
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Self

from autograder.grading import measurement_cache
from autograder.grading.errors import GradingError, SandboxGoneError, WorkerDiedError
from autograder.grading.sandbox import process_sandbox
from autograder.grading.sandbox.client import Client
from autograder.grading.sandbox.subprocess_fallback import SubprocessFallback
from autograder.grading.task import Graded, Task, ungraded, work
from autograder.grading.worker import Worker

WORKER_SECONDS = 30  # how long the first worker of a cluster may take to be there
AHEAD = 2  # submissions that wait for each process
DEATHS = (WorkerDiedError, SandboxGoneError)


class Local:
    """Processes on this machine around one sandbox; they go when this one goes."""

    def __init__(
        self,
        jobs: int,
        is_unsafe: bool,
        keep_in: Path | None = None,
        first: Iterable[Callable[[], object]] = (),
    ) -> None:
        """Say how many; nothing is started before the first submission.

        Args:
            jobs: How many processes.
            is_unsafe: Whether code may run where files and network are not shut off.
            keep_in: Folder for what they measure.
            first: What they do before the first submission, while the sandbox gets warm.
        """
        self.jobs, self._is_unsafe = jobs, is_unsafe
        self._keep_in, self._first = keep_in, tuple(first)
        self._workers: list[Worker] = []
        self._started = contextlib.ExitStack()

    def __enter__(self) -> Self:
        """Nothing is started yet."""
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        """End the processes; where something stops the run, nobody waits for what they are at."""
        self._end(at_once=kind is not None)

    def submit(self, message: bytes) -> "Future[bytes]":
        """Have one submission graded.

        Raises:
            GradingError: If the sandbox does not start, or what is done first cannot be done.
        """
        if not self._workers:
            self._start()
        return self.call(work, message)

    def call(self, function: Callable[..., Any], *arguments: Any) -> "Future[Any]":
        """Have the next process that is idle call a function."""
        return self._threads.submit(self._ask, function, *arguments)

    def renew(self) -> None:
        """Start anew after something died.

        Raises:
            GradingError: If the processes die as soon as they start.
        """
        self._end(at_once=True)
        self._start()
        try:
            self.call(os.getpid).result()
        except WorkerDiedError:
            raise GradingError(
                "The grading processes die as soon as they start: is there memory for "
                f"{self.jobs} of them? Fewer are started with `--jobs`."
            ) from None

    def _start(self) -> None:
        sandbox = process_sandbox.started(self._is_unsafe)
        self._started.callback(sandbox.close)
        for _ in range(self.jobs):
            self._workers.append(Worker(partial(_begin, sandbox.client, self._keep_in)))
            self._started.callback(self._workers[-1].kill)
        self._idle = [*self._workers]
        self._threads = ThreadPoolExecutor(self.jobs)
        self._started.callback(self._threads.shutdown, cancel_futures=True)
        first = [self.call(each) for each in self._first]
        process_sandbox.when_warm(sandbox)
        for future in first:
            if isinstance(error := future.exception(), GradingError):
                raise error

    def _ask(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Called in one of as many threads as there are processes."""
        try:
            worker = self._idle.pop()
        except IndexError:
            raise WorkerDiedError("one of the processes died") from None
        reply, error = worker.ask(function, *arguments)
        self._idle.append(worker)
        if error is not None:
            raise error
        return reply

    def _end(self, at_once: bool) -> None:
        """End what was started, the last first."""
        for worker in self._workers if at_once else ():
            worker.kill()
        self._started.close()
        self._workers = []


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
        try:
            self._client.wait_for_workers(1, timeout=WORKER_SECONDS)
        except TimeoutError:
            self._client.close()
            raise GradingError(
                f"The scheduler at {address} has no workers: start some with `dask worker "
                f"{address} --nthreads 1 --no-nanny`."
            ) from None
        self.jobs = len(self._client.scheduler_info()["workers"])

    def __enter__(self) -> Self:
        """It runs already."""
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the cluster as it was."""
        self._executor.shutdown(wait=False)
        self._client.close()

    def submit(self, message: bytes) -> "Future[bytes]":
        """Have one submission graded."""
        return self._executor.submit(work, message)

    def renew(self) -> None:
        """Dask gives a dead worker's submissions to the others."""


def stream(pool: Local | Dask, tasks: Iterable[Task]) -> Iterator[Graded]:
    """Results as they come; only so many tasks are held at once, however many there are.

    Raises:
        GradingError: If the processes cannot grade, whatever is handed in.
    """
    waiting: dict[Future[bytes], Task] = {}
    source = iter(tasks)
    while True:
        while len(waiting) < AHEAD * pool.jobs and (task := next(source, None)):
            waiting[pool.submit(task.to_bytes())] = task
        if not waiting:
            return
        done, _ = wait(waiting, return_when=FIRST_COMPLETED)
        if any(future.cancelled() for future in done):
            raise GradingError(
                "The Dask cluster is gone: start it, and run this again; it goes on where it was."
            )
        if any(isinstance(future.exception(), DEATHS) for future in done):
            yield from _one_by_one(pool, list(waiting.values()))
            waiting = {}
        for future in [each for each in waiting if each in done]:
            yield _outcome(future, waiting.pop(future))


def _one_by_one(pool: Local | Dask, tasks: list[Task]) -> Iterator[Graded]:
    """Find out which of some submissions ends the process that grades it."""
    pool.renew()
    for task in tasks:
        future = pool.submit(task.to_bytes())
        is_fatal = isinstance(future.exception(), DEATHS)
        yield _outcome(future, task)
        if is_fatal:
            pool.renew()


def _outcome(future: "Future[bytes]", task: Task) -> Graded:
    """The result, or no points with the reason for a person.

    Raises:
        GradingError: If it has nothing to do with the submission.
    """
    try:
        return Graded.from_bytes(future.result())
    except GradingError:
        raise
    except DEATHS:
        return _undone(task, "The process that graded it died, twice.")
    except Exception as error:
        return _undone(task, f"It was not graded ({type(error).__name__}: {str(error)[:300]}).")


def _undone(task: Task, why: str) -> Graded:
    """No points for now: the next run tries again."""
    return replace(ungraded(task, why), is_final=False)


def _begin(client: Client | SubprocessFallback, keep_in: Path | None) -> None:
    """Get ready in a process of this machine."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    process_sandbox.share(client)
    if keep_in is not None:
        measurement_cache.keep_in(keep_in)


def _end_with_parent() -> None:
    """End at once when the process that writes is gone, be it killed."""
    if parent := multiprocessing.parent_process():
        parent.join()
        os._exit(1)
