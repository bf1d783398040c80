"""A process of its own for each submission, where none can be isolated: told to with `--unsafe`.

The same requests and the same verdicts, some seconds later, also where a warm process cannot be
forked, as on macOS. The process has a folder of its own and bounds on time and files; it has the
rights, the files and the network of whoever grades.
"""

import contextlib
import os
import resource
import signal
import socket
import subprocess
import sys
from tempfile import TemporaryDirectory

from autograder.grading.sandbox import channel, student_process
from autograder.grading.sandbox.bubblewrap import UNISOLATED
from autograder.grading.sandbox.client import Conversation
from autograder.grading.sandbox.confinement import MAX_CPU_SECONDS, MAX_FILE_BYTES


class SubprocessFallback:
    """Starts a process for each submission; both a sandbox and the client to it."""

    is_alive = is_open = True

    @property
    def client(self) -> "SubprocessFallback":
        """Itself: whoever grades starts the processes."""
        return self

    def converse(self) -> "SubprocessConversation":
        """A fresh process for one submission, which is not ready yet."""
        return SubprocessConversation()

    def wait_until_ready(self) -> None:
        """Nothing is started before a conversation begins."""

    def close(self) -> None:
        """Nothing is left between two conversations."""


class SubprocessConversation(Conversation):
    """A conversation with a process that nobody but this one watches."""

    def __init__(self) -> None:
        """Start the process."""
        talk, theirs = socket.socketpair()
        super().__init__(talk)
        self._folder = TemporaryDirectory(prefix="submission-", ignore_cleanup_errors=True)
        with theirs:
            self._process = UNISOLATED.start(__name__, theirs.fileno(), self._folder.name)

    def end(self) -> int:
        """End the process with all of its group, remove its folder, and give its exit code."""
        self._talk.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.communicate(timeout=1)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()
        self._folder.cleanup()
        return self._process.returncode


def main() -> None:
    """Get warm, take bounds, and serve one submission."""
    for kind, bound in (
        (resource.RLIMIT_NOFILE, channel.PLACE + 1),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, MAX_FILE_BYTES),
        (resource.RLIMIT_CPU, MAX_CPU_SECONDS),
    ):
        resource.setrlimit(kind, (bound, bound))
    student_process.warm_up()
    student_process.serve(channel.lift(int(sys.argv[1])))


if __name__ == "__main__":
    main()
