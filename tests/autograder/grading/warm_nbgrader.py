"""The real nbgrader commands, each in a fresh process that finds it and the grader imported.

Run as a program it forks itself for each line that it reads: arguments, folder, environment, and
the file for what is said. It answers each with the exit code.
"""

import atexit
import json
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from nbgrader.apps.nbgraderapp import NbGraderApp

import autograder.grading.run.run  # noqa: F401 (what a command of `autograde` would import)

_of_thread = threading.local()


def nbgrader(*arguments: str, place: Path, environment: dict[str, str]) -> tuple[int, str]:
    """Exit code of a command, and what it printed and logged."""
    if not hasattr(_of_thread, "server"):
        command = [sys.executable, "-m", __name__]
        _of_thread.server = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        atexit.register(_of_thread.server.kill)
    server = _of_thread.server
    with tempfile.NamedTemporaryFile("r") as said:
        request = [arguments, str(place), environment, said.name]
        print(json.dumps(request), file=server.stdin, flush=True)
        return int(server.stdout.readline()), said.read()


def _run(arguments: list[str], place: str, environment: dict[str, str], said: str) -> None:
    """In a process of its own: one command, from beginning to end."""
    output = os.open(said, os.O_WRONLY | os.O_APPEND)
    for descriptor in (1, 2):
        os.dup2(output, descriptor)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.chdir(place)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["nbgrader", *arguments]
    NbGraderApp.launch_instance()


def _serve() -> None:
    for line in sys.stdin:
        if child := os.fork():
            _, status = os.waitpid(child, 0)
            print(os.waitstatus_to_exitcode(status), flush=True)
        else:
            _run(*json.loads(line))
            sys.exit(0)


if __name__ == "__main__":
    _serve()
