"""The fork server in the sandbox: it imports everything, computes nothing, and forks.

Each submission gets a supervisor and, in a pid namespace of its own, a student process. That is the
first process of the namespace: when it ends, the kernel ends all that it started. When the referee
hangs up, the supervisor ends it.
"""

import contextlib
import json
import os
import select
import signal
import socket
import sys
from pathlib import Path

from autograder.grading.course_version import SOURCE
from autograder.grading.sandbox import confinement, kept_code, student_process
from autograder.grading.sandbox.client import READY
from autograder.grading.sandbox.confinement import MAX_TOTAL_BYTES

HIDDEN = tuple(
    SOURCE / "autograder" / name
    for name in ("checking", "exercises", "grading", "observers", "practice")
)
FOLDERS = (Path("/tmp"), Path("/dev/shm"))
POLL_SECONDS = 0.1


def main() -> None:
    """Import everything, say so, and fork one process for each pair of descriptors received."""
    control = socket.socket(fileno=int(sys.argv[1]))
    student_process.warm_up()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    control.send(READY)
    while True:
        child_seconds, descriptors, _, _ = socket.recv_fds(control, 100, 2)
        if len(descriptors) < 2:
            return
        if os.fork() == 0:
            control.close()
            _supervise(descriptors[0], descriptors[1], float(child_seconds))
        for descriptor in descriptors:
            os.close(descriptor)


def _supervise(requests: int, referee: int, child_seconds: float) -> None:
    """Run the student process until it ends or the referee hangs up, and report how it ended.

    Args:
        requests: Descriptor on which the student process gets requests.
        referee: Descriptor on which the referee hangs up and reads the report.
        child_seconds: Processor time that all which it starts may take together.
    """
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        confinement.unshare_namespaces()
        child = os.fork()
        if child == 0:
            os.close(referee)
            _run_student_process(requests)
        os.close(requests)
        _report_exit(child, referee, child_seconds)
    finally:
        os._exit(0)


def _run_student_process(requests: int) -> None:
    try:
        os.setsid()
        _silence_output()
        os.set_inheritable(requests, False)
        connection, fork = student_process.told(requests)
        confinement.set_limits()
        confinement.prefer_for_oom_kill()
        hidden = [*HIDDEN, *(kept_code.files_of(fork["absent"]) if fork else ())]
        confinement.restrict_file_system(hidden, list(FOLDERS))
        student_process.serve(connection, fork)
    finally:
        os._exit(0)


def _silence_output() -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for descriptor in (1, 2):
        os.dup2(nowhere, descriptor)


def _report_exit(child: int, referee: int, child_seconds: float) -> None:
    """Wait for the end of a child, or end it, and send its exit code and processor time."""
    ended = os.pidfd_open(child)
    ready: list[int] = []
    inside = confinement.Namespace(child)
    while not ready and inside.num_bytes < MAX_TOTAL_BYTES and inside.child_seconds < child_seconds:
        ready, _, _ = select.select([ended, referee], [], [], POLL_SECONDS)
        inside.look()
    if ended not in ready:
        os.kill(child, signal.SIGKILL)
    _, status, usage = os.wait4(child, 0)
    report = {
        "exit_code": os.waitstatus_to_exitcode(status),
        "cpu_seconds": max(usage.ru_utime + usage.ru_stime, inside.child_seconds),
    }
    with contextlib.suppress(OSError):
        os.write(referee, json.dumps(report).encode())


if __name__ == "__main__":
    main()
