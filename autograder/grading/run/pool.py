"""Where submissions are graded: in processes on this machine, or on a Dask cluster.

On this machine threads wait for the processes that `submission` forks, one for each submission, so
there are no workers that could die with what waits for them. Two submissions at a time take 0.6 GB
so; with two workers it is 1.0 GB where these share a sandbox, and 1.3 GB with loky or 1.4 GB with
Dask's local cluster, where each has one. A killed worker of loky fails all that waits, and a local
Dask scheduler runs the code of every account of the machine that reaches its port.
"""

import contextlib
import os
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from autograder.grading.errors import GradingError, SandboxGoneError
from autograder.grading.run import bounded_process, measurement_cache, referee
from autograder.grading.run.submission import GradedSubmission, Submission, grade, ungraded
from autograder.grading.sandbox import process_sandbox

CONNECT_SECONDS = 10
WORKER_SECONDS = 30  # how long the first worker of a cluster may take to appear
QUEUED_PER_PROCESS = 2


@dataclass(frozen=True)
class Pool:
    """What grades, and how many submissions at a time."""

    executor: Executor
    jobs: int

    def submit(self, submission: Submission) -> "Future[GradedSubmission]":
        """Have one submission graded."""
        return self.executor.submit(grade, submission)


@contextlib.contextmanager
def processes(
    jobs: int, is_unsafe: bool, cache_folder: Path, exercises: Iterable[str], seeds: tuple[int, ...]
) -> Iterator[Pool]:
    """Processes on this machine that share one sandbox; they end at once when an error comes.

    Args:
        jobs: Their number.
        is_unsafe: Whether students' code may run without a sandbox.
        cache_folder: Folder for what is measured for the hidden cases.
        exercises: Those that will be judged; measured before the first submission.
        seeds: Seeds of the hidden cases.

    Raises:
        GradingError: If the sandbox does not start, or a check cannot make its cases.
    """
    measurement_cache.use_folder(cache_folder)
    threads = ThreadPoolExecutor(jobs)
    with _hidden_gpus():
        try:
            process_sandbox.start(is_unsafe)
            list(threads.map(partial(_measure, seeds=seeds), exercises := [*exercises]))
            for name in exercises:
                referee.prepare(name, seeds)
            process_sandbox.ready(is_unsafe)
            yield Pool(threads, jobs)
        finally:
            threads.shutdown(wait=False, cancel_futures=True)
            bounded_process.end_all()
            process_sandbox.close()


@contextlib.contextmanager
def _hidden_gpus() -> Iterator[None]:
    """Judges use no GPU: autograd's threads for it would be missing in a forked process."""
    before = os.environ.get("CUDA_VISIBLE_DEVICES")
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    try:
        yield
    finally:
        del os.environ["CUDA_VISIBLE_DEVICES"]
        if before is not None:
            os.environ["CUDA_VISIBLE_DEVICES"] = before


def _measure(exercise: str, seeds: tuple[int, ...]) -> None:
    """Fill the cache in a process of its own; what fails there fails again where it is read."""

    def measured() -> bytes:
        referee.cases_of(exercise, seeds)
        return b""

    with contextlib.suppress(bounded_process.StoppedError):
        bounded_process.call(measured, bounded_process.Bounds())


@contextlib.contextmanager
def cluster(address: str) -> Iterator[Pool]:
    """A Dask cluster that runs; its workers have this course installed and share no files.

    Raises:
        GradingError: If `distributed` is missing, no scheduler answers there, or it has no workers.
    """
    try:
        from distributed import Client  # noqa: PLC0415 (an optional dependency)
    except ImportError:
        raise GradingError(
            "Grading on a Dask cluster needs `distributed`: install the `dev` extra."
        ) from None
    try:
        client = Client(address, timeout=CONNECT_SECONDS)
    except (OSError, ValueError, TypeError) as error:
        raise GradingError(
            f"No Dask scheduler answers at {address} ({error}). Start one with `dask "
            "scheduler`, and workers with `dask worker ADDRESS --nthreads 1 --no-nanny`."
        ) from None
    with client:
        try:
            client.wait_for_workers(1, timeout=WORKER_SECONDS)
        except TimeoutError:
            raise GradingError(
                f"The scheduler at {address} has no workers: start some with `dask worker "
                f"{address} --nthreads 1 --no-nanny`."
            ) from None
        executor = client.get_executor(pure=False)
        try:
            yield Pool(executor, len(client.scheduler_info()["workers"]))
        finally:
            executor.shutdown(wait=False)


def stream(
    pool: Pool, submissions: Iterable[Submission]
) -> Iterator[tuple[Submission, GradedSubmission]]:
    """Submissions and results, as these finish; only a few submissions are in memory at a time.

    Those that were under way when the sandbox ended are graded again at the end, one at a time, so
    that the one which ends it costs nobody else.

    Raises:
        GradingError: If nothing can be graded at all.
    """
    waiting: dict[Future[GradedSubmission], Submission] = {}
    source, again = iter(submissions), list[Submission]()
    while True:
        while len(waiting) < QUEUED_PER_PROCESS * pool.jobs and (submission := next(source, None)):
            waiting[pool.submit(submission)] = submission
        if not waiting:
            break
        done, _ = wait(waiting, return_when=FIRST_COMPLETED)
        if any(future.cancelled() for future in done):
            raise GradingError(
                "The Dask cluster is gone: start it, and run this again; it goes on where it was."
            )
        for future in [each for each in waiting if each in done]:
            submission = waiting.pop(future)
            if isinstance(future.exception(), SandboxGoneError):
                again.append(submission)
            else:
                yield submission, _outcome(future, submission)
    for submission in again:
        yield submission, _outcome(pool.submit(submission), submission)


def _outcome(future: "Future[GradedSubmission]", submission: Submission) -> GradedSubmission:
    """The result, or no points and the reason for a person.

    Raises:
        GradingError: If the error has nothing to do with the submission.
    """
    try:
        return future.result()
    except GradingError:
        raise
    except SandboxGoneError:
        return ungraded(submission, "The process that graded it died, twice.", is_final=False)
    except Exception as error:
        why = f"It was not graded ({type(error).__name__}: {str(error)[:300]})."
        return ungraded(submission, why, is_final=False)
