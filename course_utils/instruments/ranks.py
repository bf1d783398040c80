"""Does it also run on real processes? One per rank on this machine, from a notebook's cell.

    >>> def step(comm: Comm, x: Tensor) -> Tensor:
    ...     comm.all_reduce(x)
    ...     return x
    >>> run_ranks(step, 2, torch.ones(3))
    [tensor([2., 2., 2.]), tensor([2., 2., 2.])]

The function may come from the notebook, with all that it uses. Processes find each other through a
file, not a port; each works in one thread. What they print comes when all are done.

Source: PyTorch documentation, "Distributed communication package", file store.
"""

import contextlib
import importlib
import inspect
import os
import pickle
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from course_utils.configs.validation import require_positive
from course_utils.instruments.job import Outcome, Task
from course_utils.instruments.journal import Situation, read_journal, situation
from course_utils.instruments.matching import (
    CommError,
    DeadlockError,
    RankError,
    TimeLimitError,
    states_in_words,
)
from course_utils.instruments.torch_comm import require_backend

PROCESS = "course_utils.instruments.rank_process"
GLANCE_SECONDS = 0.02
QUIET_SECONDS = 0.3  # without a line in any journal, before they are read for who waits
PATIENCE_SECONDS = 3.0  # for the cause of a lost connection, and for an end that is no hurry
# Gloo asks for the address of this machine's name unless it is told where to listen.
LOOPBACK = {"linux": "lo", "darwin": "lo0"}


def run_ranks(
    function: Callable[..., Any],
    num_ranks: int,
    *args: Any,
    limit_seconds: float = 60.0,
    seed: int = 0,
    backend: str = "gloo",
) -> list[Any]:
    """Call ``function(comm, *args)`` in so many processes, and return what each returned.

    Afterwards no process and no file is left, whatever happened. Rank r begins with random numbers
    of ``seed + r``, as on a `VirtualCluster`.

    Args:
        function: Of a `Comm`; may be defined in a notebook.
        num_ranks: How many processes.
        args: More arguments, of which each process gets a copy.
        limit_seconds: Of the whole, the start of the processes included.
        seed: Of random numbers.
        backend: ``"gloo"``, or ``"nccl"`` with one GPU for each rank.

    Raises:
        TypeError: If it is no function, or if it or an argument cannot be sent to a process.
        ValueError: If there is no such backend, if it has too few GPUs, or if a package is missing.
        RankError: If a rank raises or is killed; an original error is the cause, where it can be
            sent back, and its lines are a note.
        DeadlockError: If ranks wait for each other, or for one that has returned.
        MismatchError: If ranks call different collectives, or with other shapes or dtypes.
        TimeLimitError: If they are not done in time.
        CommError: If a rank does not wait for a call, or loses the others without a cause.
    """
    if not callable(function):
        raise TypeError(f"run_ranks wants a function of comm, got {type(function).__name__}")
    require_positive("run_ranks", num_ranks=num_ranks)
    _require_gpus(backend, num_ranks)
    job = _pickled(function, args)
    _tell_of_shared_cores(num_ranks)
    with _folder() as folder:
        task = Task(job, num_ranks, backend, seed, limit_seconds)
        (folder / "task").write_bytes(pickle.dumps(task))
        try:
            with _processes(folder, num_ranks) as processes:
                outcomes = _Watch(folder, processes, limit_seconds).outcomes()
        finally:
            _relay(folder, num_ranks)
        return [pickle.loads(each.result or b"") for each in outcomes]


def _require_gpus(backend: str, num_ranks: int) -> None:
    require_backend(backend)
    if backend == "nccl" and torch.cuda.device_count() < num_ranks:
        raise ValueError(
            f"run_ranks: {num_ranks} ranks with nccl need as many GPUs, and here are "
            f"{torch.cuda.device_count()}"
        )


def _tell_of_shared_cores(num_ranks: int) -> None:
    num_cores = os.cpu_count() or 1
    if num_ranks > num_cores:
        print(
            f"{num_ranks} ranks share {num_cores} cores: what they compute holds, how long they "
            f"take does not"
        )


def _pickled(function: Callable[..., Any], args: Sequence[Any]) -> bytes:
    """Function and arguments as bytes that a new process understands."""
    try:
        dumps: Callable[[Any], bytes] = importlib.import_module("cloudpickle").dumps
    except ModuleNotFoundError as error:
        raise ValueError(
            "run_ranks needs the package cloudpickle of requirements.txt: `make lab` installs it"
        ) from error
    try:
        return dumps((function, tuple(args)))
    except Exception as error:
        name = _culprit(function, args, dumps)
        raise TypeError(
            f"run_ranks cannot send {name} to other processes ({error}): make it inside the "
            f"function"
        ) from error


def _culprit(
    function: Callable[..., Any], args: Sequence[Any], dumps: Callable[[Any], bytes]
) -> str:
    """What cannot be pickled, in words."""
    used = {f"argument {number}": value for number, value in enumerate(args, 1)}
    if inspect.isfunction(function):
        outside = inspect.getclosurevars(function)
        for values in (outside.globals, outside.nonlocals):
            used |= {f"`{name}`": value for name, value in values.items()}
    for name, value in used.items():
        try:
            dumps(value)
        except Exception:
            return f"{name}, a {type(value).__name__},"
    return "the function"


@contextmanager
def _folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="ranks-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _processes(folder: Path, num_ranks: int) -> Iterator[list["subprocess.Popen[bytes]"]]:
    """One process for each rank, all gone afterwards."""
    processes: list[subprocess.Popen[bytes]] = []
    try:
        for rank in range(num_ranks):
            processes.append(_started(folder, rank))
        yield processes
        _let_go(processes)
    finally:
        for process in processes:
            _kill(process)
        for process in processes:
            process.wait()
            assert process.stdin is not None
            with contextlib.suppress(OSError):  # it did not read what it was told
                process.stdin.close()


def _started(folder: Path, rank: int) -> "subprocess.Popen[bytes]":
    # An interrupt is for this process: it ends the others.
    group: dict[str, Any] = {"start_new_session": True}
    if sys.platform == "win32":
        group = {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
    with (
        (folder / f"printed-{rank}").open("wb") as out,
        (folder / f"errors-{rank}").open("wb") as errors,
    ):
        return subprocess.Popen(
            [sys.executable, "-m", PROCESS, str(folder), str(rank)],
            stdin=subprocess.PIPE,
            stdout=out,
            stderr=errors,
            env=_environment(os.environ),
            **group,
        )


def _environment(environ: Mapping[str, str]) -> dict[str, str]:
    """That of this process, with what it can import, and one thread for each rank."""
    path = os.pathsep.join(str(Path(each).resolve()) for each in sys.path)
    added = {"PYTHONPATH": path, "OMP_NUM_THREADS": "1", "PYTHONIOENCODING": "utf-8"}
    if sys.platform in LOOPBACK:
        added["GLOO_SOCKET_IFNAME"] = LOOPBACK[sys.platform]
    return {**environ, **added}


def _let_go(processes: Sequence["subprocess.Popen[bytes]"]) -> None:
    """Tell all that all are done, and give them time to end."""
    for process in processes:
        assert process.stdin is not None
        with contextlib.suppress(OSError):
            process.stdin.write(b"\n")
            process.stdin.flush()
    deadline = time.monotonic() + PATIENCE_SECONDS
    for process in processes:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(max(deadline - time.monotonic(), 0))


def _kill(process: "subprocess.Popen[bytes]") -> None:
    """With all that it started."""
    if sys.platform == "win32":
        process.kill()
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _relay(folder: Path, num_ranks: int) -> None:
    """Print what the ranks printed, one after the other."""
    for rank in range(num_ranks):
        text = (folder / f"printed-{rank}").read_text(encoding="utf-8", errors="replace")
        for line in text.splitlines():
            print(f"rank {rank}: {line}")


class _Watch:
    """Looks at the processes of all ranks until they are done or one is in trouble."""

    def __init__(
        self, folder: Path, processes: Sequence["subprocess.Popen[bytes]"], limit_seconds: float
    ) -> None:
        self.folder, self.processes, self.limit_seconds = folder, processes, limit_seconds
        self.found: dict[int, Outcome] = {}
        self.deadline = time.monotonic() + limit_seconds
        self.quiet_since, self.num_bytes = time.monotonic(), -1
        self.lost_since: float | None = None

    def outcomes(self) -> list[Outcome]:
        """Those of all ranks, if all are results."""
        while True:
            ended = [rank for rank, each in enumerate(self.processes) if each.poll() is not None]
            self._collect()
            self._raise_errors(ended)
            if len(self.found) == len(self.processes) and self.lost_since is None:
                self._situation()  # different calls may have gone through by chance
                return [self.found[rank] for rank in sorted(self.found)]
            self._look_for_deadlock()
            if time.monotonic() > self.deadline:
                states = states_in_words(self._situation().states)
                raise TimeLimitError(f"{self.limit_seconds:g} s are used up: {states}")
            time.sleep(GLANCE_SECONDS)

    def _collect(self) -> None:
        for rank in range(len(self.processes)):
            path = self.folder / f"outcome-{rank}"
            if rank not in self.found and path.exists():
                self.found[rank] = pickle.loads(path.read_bytes())

    def _raise_errors(self, ended: Sequence[int]) -> None:
        """The first own error, or who was killed; a lost connection only if there is no cause."""
        failed = {rank: each for rank, each in self.found.items() if each.result is None}
        killed = [rank for rank in ended if rank not in self.found]
        if not failed and not killed:
            return
        self._situation()
        own = [rank for rank, each in failed.items() if each.is_own]
        if own:
            raise _error_of(min(own, key=lambda rank: failed[rank].at), failed)
        if killed:
            raise self._killed(killed[0])
        self.lost_since = self.lost_since or time.monotonic()
        if time.monotonic() > self.lost_since + PATIENCE_SECONDS:
            raise _error_of(min(failed, key=lambda rank: failed[rank].at), failed)

    def _killed(self, rank: int) -> RankError:
        status = self.processes[rank].returncode
        how = f"ended with status {status}"
        if status < 0:
            how = f"was killed by {signal.Signals(-status).name}"
        state = self._situation().states[rank]
        error = RankError(rank, f"rank {rank} {how} while it {state}")
        text = (self.folder / f"errors-{rank}").read_text(encoding="utf-8", errors="replace")
        if text.strip():
            error.add_note("\n".join(text.splitlines()[-8:]))
        return error

    def _situation(self) -> Situation:
        journals = [self.folder / f"journal-{rank}" for rank in range(len(self.processes))]
        returned = [rank for rank, each in self.found.items() if each.result is not None]
        return situation([read_journal(each) for each in journals], returned)

    def _look_for_deadlock(self) -> None:
        """Read the journals when nobody has written for a while."""
        paths = [self.folder / f"journal-{rank}" for rank in range(len(self.processes))]
        num_bytes = sum(path.stat().st_size for path in paths if path.exists())
        now = time.monotonic()
        if num_bytes != self.num_bytes:
            self.num_bytes, self.quiet_since = num_bytes, now
        elif now > self.quiet_since + QUIET_SECONDS:
            self.quiet_since = now
            found = self._situation()
            if found.is_stuck:
                raise DeadlockError(f"deadlock: {states_in_words(found.states)}")


def _error_of(rank: int, failed: Mapping[int, Outcome]) -> Exception:
    """What a rank raised: an error of ours itself, any other as the cause, with its lines."""
    outcome, original = failed[rank], None
    if outcome.error is not None:
        with contextlib.suppress(Exception):
            original = pickle.loads(outcome.error)
    if isinstance(original, CommError):
        return original
    error = RankError(rank, outcome.message)
    error.__cause__ = original
    if outcome.trace:
        error.add_note(outcome.trace)
    return error
