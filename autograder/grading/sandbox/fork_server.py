"""The warm, isolated program: it has everything loaded, computes nothing, and forks.

Each submission gets a supervisor, which leaves the other processes, and below it the first process
of its own world, in which the student's code runs. When that process ends, so does all that it
started; when the referee goes away, the supervisor ends it.
"""

import contextlib
import json
import os
import select
import signal
import socket
import sys
from pathlib import Path

from autograder.grading.sandbox import channel, confinement, student_process
from autograder.grading.sandbox.bubblewrap import SOURCE
from autograder.grading.sandbox.client import READY

HIDDEN = (
    *(SOURCE / "autograder" / room for room in ("checking", "exercises", "grading")),
    *(SOURCE / "course_utils" / room for room in ("formulas", "reference")),
)
FOLDERS = (Path("/tmp"), Path("/dev/shm"))
WATCH_SECONDS = 0.1


def main() -> None:
    """Get warm, say so, and raise one process for each pair of descriptors that comes."""
    control = socket.socket(fileno=int(sys.argv[1]))
    student_process.warm_up()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    control.send(READY)
    while True:
        _, descriptors, _, _ = socket.recv_fds(control, 1, 2)
        if len(descriptors) < 2:
            return
        if os.fork() == 0:
            control.close()
            _supervise(*descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


def _supervise(talk: int, life: int) -> None:
    """Start the student process, wait for its end or the referee's, and tell how it ended."""
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        confinement.leave_the_others()
        child = os.fork()
        if child == 0:
            os.close(life)
            _live(talk)
        os.close(talk)
        _tell_the_end(child, life)
    finally:
        os._exit(0)


def _live(talk: int) -> None:
    try:
        os.setsid()
        _say_nothing()
        talk = channel.lift(talk)
        confinement.limit()
        confinement.be_first_to_go()
        confinement.take_away(list(HIDDEN), list(FOLDERS))
        student_process.serve(talk)
    finally:
        os._exit(0)


def _say_nothing() -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for descriptor in (1, 2):
        os.dup2(nowhere, descriptor)


def _tell_the_end(child: int, life: int) -> None:
    ended = os.pidfd_open(child)
    ready: list[int] = []
    while not ready and confinement.bytes_below(child) < confinement.MAX_BYTES_TOGETHER:
        ready, _, _ = select.select([ended, life], [], [], WATCH_SECONDS)
    if ended not in ready:
        os.kill(child, signal.SIGKILL)
    _, status, usage = os.wait4(child, 0)
    end = {
        "exit_code": os.waitstatus_to_exitcode(status),
        "cpu_seconds": usage.ru_utime + usage.ru_stime,
    }
    with contextlib.suppress(OSError):
        os.write(life, json.dumps(end).encode())


if __name__ == "__main__":
    main()
