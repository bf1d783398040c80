"""A process for each rank, which ends with this one, whatever happens to either."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PROCESS = "course_utils.distributed.rank_process"
PATIENCE_SECONDS = 3.0  # for an end that is no hurry
# Gloo asks for the address of this machine's name unless it is told where to listen.
LOOPBACK = {"linux": "lo", "darwin": "lo0"}


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """A new folder, gone afterwards with all that is in it."""
    folder = Path(tempfile.mkdtemp(prefix="ranks-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def processes_of(folder: Path, num_ranks: int) -> Iterator[list["subprocess.Popen[bytes]"]]:
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
