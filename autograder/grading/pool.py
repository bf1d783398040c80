"""Pools of grading processes, on this machine or on a Dask cluster, with one interface."""

import contextlib
import multiprocessing
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from functools import partial
from pathlib import Path
from typing import Any, Self

from autograder.grading import measurement_cache
from autograder.grading.errors import GradingError, SandboxGoneError, WorkerDiedError
from autograder.grading.sandbox import process_sandbox
from autograder.grading.sandbox.client import Client
from autograder.grading.sandbox.subprocess_fallback import SubprocessFallback
from autograder.grading.task import GradedSubmission, Task, run_task, ungraded
from autograder.grading.worker import Worker

WORKER_SECONDS = 30  # how long the first worker of a cluster may take to appear
QUEUED_PER_PROCESS = 2
DEATH_ERRORS = (WorkerDiedError, SandboxGoneError)


class LocalPool:
    """Processes on this machine that share one sandbox; they end when this process ends."""

    def __init__(
        self,
        jobs: int,
        is_unsafe: bool,
        cache_folder: Path | None = None,
        warm_up: Iterable[Callable[[], object]] = (),
    ) -> None:
        """Configure the pool; nothing is started before the first submission.

        Args:
            jobs: Number of processes.
            is_unsafe: Whether students' code may run without a sandbox.
            cache_folder: Folder for what the processes measure.
            warm_up: Functions that they call before the first submission, while the sandbox starts.
        """
        self.jobs, self._is_unsafe = jobs, is_unsafe
        self._cache_folder, self._warm_up = cache_folder, tuple(warm_up)
        self._workers: list[Worker] = []
        self._started = contextlib.ExitStack()

    def __enter__(self) -> Self:
        """Start nothing yet."""
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        """End the processes; if an error stops the run, do not wait for their work."""
        self._end(at_once=kind is not None)

    def submit(self, message: bytes) -> "Future[bytes]":
        """Have one submission graded.

        Raises:
            GradingError: If the sandbox does not start or a warm-up function fails.
        """
        if not self._workers:
            self._start()
        return self.call(run_task, message)

    def call(self, function: Callable[..., Any], *arguments: Any) -> "Future[Any]":
        """Call a function in the next idle process."""
        return self._threads.submit(self._ask, function, *arguments)

    def restart(self) -> None:
        """Replace all processes and the sandbox after one of them died.

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
        sandbox = process_sandbox.start(self._is_unsafe)
        self._started.callback(sandbox.close)
        for _ in range(self.jobs):
            initializer = partial(_initialize, sandbox.client, self._cache_folder)
            self._workers.append(Worker(initializer))
            self._started.callback(self._workers[-1].kill)
        self._idle = [*self._workers]
        self._threads = ThreadPoolExecutor(self.jobs)
        self._started.callback(self._threads.shutdown, cancel_futures=True)
        futures = [self.call(function) for function in self._warm_up]
        process_sandbox.ready_client(sandbox)
        for future in futures:
            if isinstance(error := future.exception(), GradingError):
                raise error

    def _ask(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function in an idle process; runs in one of as many threads as processes."""
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
        """Stop everything that was started, last first."""
        for worker in self._workers if at_once else ():
            worker.kill()
        self._started.close()
        self._workers = []


class DaskPool:
    """A Dask cluster; its workers have this course installed and need no shared files."""

    def __init__(self, address: str) -> None:
        """Connect to its scheduler.

        Raises:
            GradingError: If `distributed` is missing or no scheduler answers there.
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
        """Do nothing: the cluster runs already."""
        return self

    def __exit__(self, *_: object) -> None:
        """Disconnect; the cluster goes on running."""
        self._executor.shutdown(wait=False)
        self._client.close()

    def submit(self, message: bytes) -> "Future[bytes]":
        """Have one submission graded."""
        return self._executor.submit(run_task, message)

    def restart(self) -> None:
        """Do nothing: Dask gives a dead worker's submissions to the others."""


def stream(pool: LocalPool | DaskPool, tasks: Iterable[Task]) -> Iterator[GradedSubmission]:
    """Results in the order in which they finish; only a few tasks are in memory at a time.

    Raises:
        GradingError: If the processes cannot grade at all.
    """
    waiting: dict[Future[bytes], Task] = {}
    source = iter(tasks)
    while True:
        while len(waiting) < QUEUED_PER_PROCESS * pool.jobs and (task := next(source, None)):
            waiting[pool.submit(task.to_bytes())] = task
        if not waiting:
            return
        done, _ = wait(waiting, return_when=FIRST_COMPLETED)
        if any(future.cancelled() for future in done):
            raise GradingError(
                "The Dask cluster is gone: start it, and run this again; it goes on where it was."
            )
        if any(isinstance(future.exception(), DEATH_ERRORS) for future in done):
            yield from _one_by_one(pool, list(waiting.values()))
            waiting = {}
        for future in [each for each in waiting if each in done]:
            yield _outcome(future, waiting.pop(future))


def _one_by_one(pool: LocalPool | DaskPool, tasks: list[Task]) -> Iterator[GradedSubmission]:
    """Grade submissions one at a time, to find the one that ends its process."""
    pool.restart()
    for task in tasks:
        future = pool.submit(task.to_bytes())
        is_fatal = isinstance(future.exception(), DEATH_ERRORS)
        yield _outcome(future, task)
        if is_fatal:
            pool.restart()


def _outcome(future: "Future[bytes]", task: Task) -> GradedSubmission:
    """The result, or no points and the reason for a person.

    Raises:
        GradingError: If the error has nothing to do with the submission.
    """
    try:
        return GradedSubmission.from_bytes(future.result())
    except GradingError:
        raise
    except DEATH_ERRORS:
        return ungraded(task, "The process that graded it died, twice.", is_final=False)
    except Exception as error:
        why = f"It was not graded ({type(error).__name__}: {str(error)[:300]})."
        return ungraded(task, why, is_final=False)


def _initialize(client: Client | SubprocessFallback, cache_folder: Path | None) -> None:
    """Prepare a process of the local pool."""
    # Judges use no GPU: autograd's threads for it would be missing in a forked process.
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    process_sandbox.share(client)
    if cache_folder is not None:
        measurement_cache.use_folder(cache_folder)


def _end_with_parent() -> None:
    """Exit when the parent process ends, even if it is killed."""
    if parent := multiprocessing.parent_process():
        parent.join()
        os._exit(1)
