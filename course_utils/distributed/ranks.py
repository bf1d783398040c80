"""Does it also run in real processes? One per rank on this machine, from a notebook cell.

    >>> def step(comm: Comm, x: Tensor) -> Tensor:
    ...     comm.all_reduce(x)
    ...     return x
    >>> run_ranks(step, 2, torch.ones(3))
    [tensor([2., 2., 2.]), tensor([2., 2., 2.])]

The function may be defined in the notebook, with all that it uses. Processes find each other
through a file, not a port; each uses one thread. What they print is shown when all are done.

Source: PyTorch documentation, "Distributed communication package", file store.
"""

import importlib
import inspect
import os
import pickle
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from course_utils.configs.validation import require_positive
from course_utils.distributed.process_monitor import Monitor
from course_utils.distributed.processes import processes_of
from course_utils.distributed.rank_job import RankJob


def run_ranks(
    function: Callable[..., Any],
    num_ranks: int,
    *args: Any,
    limit_seconds: float = 60.0,
    seed: int = 0,
) -> list[Any]:
    """Call ``function(comm, *args)`` in one process per rank, and return all results.

    No process and no file is left afterwards, whatever happened.

    Args:
        function: Takes a `Comm` first; may be defined in a notebook.
        num_ranks: Number of processes.
        args: Further arguments; each process gets a copy.
        limit_seconds: For the whole run, including the start of the processes.
        seed: Rank r starts with the random seed ``seed + r``, as on a `VirtualCluster`.

    Returns:
        What each rank returned, in the order of ranks.

    Raises:
        TypeError: If it is not a function, or if it or an argument cannot be sent to a process.
        ValueError: If a package is missing.
        RankError: If a rank raises or is killed; the original error is the cause, if it can be
            sent back, and its traceback is a note.
        DeadlockError: If ranks wait for each other, or for one that has returned.
        MismatchError: If ranks call different collectives, or with different shapes or dtypes.
        TimeLimitError: If they do not return in time.
        CommError: If a rank does not wait for a call, or loses the others for no known reason.
    """
    if not callable(function):
        raise TypeError(f"run_ranks wants a function of comm, got {type(function).__name__}")
    require_positive("run_ranks", num_ranks=num_ranks)
    job = RankJob(_pickled(function, args), num_ranks, seed, limit_seconds)
    _report_shared_cores(num_ranks)
    with tempfile.TemporaryDirectory(prefix="ranks-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        (folder / "job").write_bytes(pickle.dumps(job))
        try:
            with processes_of(folder, num_ranks) as processes:
                outcomes = Monitor(folder, processes, limit_seconds).outcomes()
        finally:
            _show_printed(folder, num_ranks)
        return [pickle.loads(each.result or b"") for each in outcomes]


def _report_shared_cores(num_ranks: int) -> None:
    num_cores = os.cpu_count() or 1
    if num_ranks > num_cores:
        cores = "one core" if num_cores == 1 else f"{num_cores} cores"
        print(
            f"{num_ranks} ranks share {cores}: what they compute holds, how long they take does not"
        )


def _pickled(function: Callable[..., Any], args: Sequence[Any]) -> bytes:
    """Function and arguments, pickled by value so that a new process can load them."""
    try:
        dumps: Callable[[Any], bytes] = importlib.import_module("cloudpickle").dumps
    except ModuleNotFoundError as error:
        raise ValueError(
            "run_ranks needs the package cloudpickle of requirements.txt: `make lab` installs it"
        ) from error
    try:
        return dumps((function, tuple(args)))
    except Exception as error:
        what = _unpicklable(function, args, dumps)
        raise TypeError(
            f"run_ranks cannot send {what} to other processes ({error}): make it inside the "
            f"function"
        ) from error


def _unpicklable(
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


def _show_printed(folder: Path, num_ranks: int) -> None:
    """Print what the ranks printed, rank by rank."""
    for rank in range(num_ranks):
        path = folder / f"printed-{rank}"
        text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
        for line in text.splitlines():
            print(f"rank {rank}: {line}")
