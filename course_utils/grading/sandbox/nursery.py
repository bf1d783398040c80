"""The warm program in the room: it has everything loaded, computes nothing, and forks.

Each submission gets a keeper, which leaves the other processes, and below it the first process of
its own world, in which the student's code runs. When that process ends, so does all that it
started; when the referee goes away, the keeper ends it.
"""

import contextlib
import json
import os
import select
import signal
import socket
import sys
from pathlib import Path

from course_utils.grading.sandbox import confine, inmate, line
from course_utils.grading.sandbox.door import READY
from course_utils.grading.sandbox.room import PACKAGE

HIDDEN = tuple(PACKAGE / room for room in ("checks", "formulas", "reference", "grading"))
FOLDERS = (Path("/tmp"), Path("/dev/shm"))
WATCH_SECONDS = 0.1


def main() -> None:
    """Get warm, say so, and raise one process for each pair of descriptors that comes."""
    control = socket.socket(fileno=int(sys.argv[1]))
    inmate.warm_up()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    control.send(READY)
    while True:
        _, descriptors, _, _ = socket.recv_fds(control, 1, 2)
        if len(descriptors) < 2:
            return
        if os.fork() == 0:
            control.close()
            _keep(*descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


def _keep(talk: int, life: int) -> None:
    """Start the inmate, wait for its end or the referee's, and tell how it ended."""
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        confine.leave_the_others()
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
        talk = line.lift(talk)
        confine.limit()
        confine.be_first_to_go()
        confine.take_away(list(HIDDEN), list(FOLDERS))
        inmate.serve(talk)
    finally:
        os._exit(0)


def _say_nothing() -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for descriptor in (1, 2):
        os.dup2(nowhere, descriptor)


def _tell_the_end(child: int, life: int) -> None:
    ended = os.pidfd_open(child)
    ready: list[int] = []
    while not ready and confine.bytes_below(child) < confine.MAX_BYTES_TOGETHER:
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
