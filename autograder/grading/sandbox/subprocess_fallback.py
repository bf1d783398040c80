"""Start a plain process for each submission where nothing can be isolated (`--unsafe`).

It answers the same requests and leads to the same verdicts, some seconds later, also where the fork
server cannot run, as on macOS. The process has a folder of its own and limits on time and file
size, but the rights, files and network of the person who grades.
"""

import contextlib
import resource
import socket
import subprocess
import sys
from tempfile import TemporaryDirectory

from autograder.grading.sandbox import student_process
from autograder.grading.sandbox.bubblewrap import UNSANDBOXED, kill_group
from autograder.grading.sandbox.client import Conversation
from autograder.grading.sandbox.confinement import MAX_CPU_SECONDS, MAX_FILE_BYTES, MAX_FILES
from autograder.grading.sandbox.kept_code import Fork


class SubprocessFallback:
    """Starts a process for each submission, as `SandboxProcess` does in its sandbox."""

    is_alive = is_open = True

    def start_conversation(
        self, child_seconds: float = 0.0, fork: Fork | None = None
    ) -> "SubprocessConversation":
        """Start a fresh process for one submission, not ready yet; nobody counts its children."""
        return SubprocessConversation(fork)

    def wait_until_ready(self) -> None:
        """Do nothing: no process exists before a conversation begins."""

    def close(self) -> None:
        """Do nothing: no process outlives its conversation."""


class SubprocessConversation(Conversation):
    """A conversation with a child process, which has no supervisor."""

    def __init__(self, fork: Fork | None) -> None:
        requests, theirs = socket.socketpair()
        super().__init__(requests, fork)
        self._folder = TemporaryDirectory(prefix="submission-", ignore_cleanup_errors=True)
        with theirs:
            self._process = UNSANDBOXED.start(__name__, theirs.fileno(), self._folder.name)

    def end(self) -> int:
        """End the process and its group, remove its folder, and give its exit code."""
        self._requests.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.communicate(timeout=1)
        kill_group(self._process)
        self._folder.cleanup()
        return self._process.returncode


def main() -> None:
    """Set limits, import everything, and serve one submission."""
    for kind, bound in (
        (resource.RLIMIT_NOFILE, MAX_FILES),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, MAX_FILE_BYTES),
        (resource.RLIMIT_CPU, MAX_CPU_SECONDS),
    ):
        resource.setrlimit(kind, (bound, bound))
    student_process.warm_up()
    student_process.serve(*student_process.told(int(sys.argv[1])))


if __name__ == "__main__":
    main()
