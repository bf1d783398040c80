"""Start one process per rank; none outlives this process, whatever happens."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

PROCESS = "course_utils.distributed.rank_process"
EXIT_SECONDS = 3.0  # for a process to exit by itself, before it is killed
# Unless told which interface to use, Gloo looks up the address of this machine's host name.
LOOPBACK = {"linux": "lo", "darwin": "lo0"}


@contextmanager
def processes_of(folder: Path, num_ranks: int) -> Iterator[list["subprocess.Popen[bytes]"]]:
    """One process for each rank; none is left afterwards."""
    processes: list[subprocess.Popen[bytes]] = []
    try:
        for rank in range(num_ranks):
            processes.append(_start(folder, rank))
        yield processes
        _wait_for_exit(processes)
    finally:
        for process in processes:
            _kill(process)
        for process in processes:
            process.wait()
            assert process.stdin is not None
            with contextlib.suppress(OSError):  # it did not read its input
                process.stdin.close()


def _start(folder: Path, rank: int) -> "subprocess.Popen[bytes]":
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
            start_new_session=True,  # an interrupt reaches only this process, which ends the others
        )


def _environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The given environment, with this process's import path and one thread per rank."""
    path = os.pathsep.join(str(Path(each).resolve()) for each in sys.path)
    added = {"PYTHONPATH": path, "OMP_NUM_THREADS": "1", "PYTHONIOENCODING": "utf-8"}
    if sys.platform in LOOPBACK:
        added["GLOO_SOCKET_IFNAME"] = LOOPBACK[sys.platform]
    return {**environ, **added}


def _wait_for_exit(processes: Sequence["subprocess.Popen[bytes]"]) -> None:
    """Let all exit, now that all are done, and wait a moment."""
    for process in processes:
        assert process.stdin is not None
        with contextlib.suppress(OSError):
            process.stdin.write(b"\n")
            process.stdin.flush()
    deadline = time.monotonic() + EXIT_SECONDS
    for process in processes:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(max(deadline - time.monotonic(), 0))


def _kill(process: "subprocess.Popen[bytes]") -> None:
    """Kill a process and all that it started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
