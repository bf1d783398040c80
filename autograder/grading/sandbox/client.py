"""The referee's side of the sandbox: one conversation for each submission, with time limits."""

import contextlib
import json
import socket
import subprocess
from abc import ABC, abstractmethod
from typing import Any

from autograder.checking.plain_data import Plain
from autograder.grading.errors import GradingError
from autograder.grading.sandbox import framing
from autograder.grading.sandbox.bubblewrap import Launcher, kill_group
from autograder.grading.sandbox.kept_code import Fork

FORK_SERVER = "autograder.grading.sandbox.fork_server"
READY = b"ready"
START_SECONDS = 120.0
END_SECONDS = 10.0


class GoneError(RuntimeError):
    """The process of a submission has ended; the message says how."""


class SandboxProcess:
    """The process that runs `fork_server`, and forks one for each submission."""

    def __init__(self, launcher: Launcher) -> None:
        """Start it; it imports what it needs while the caller goes on."""
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = launcher.start(FORK_SERVER, theirs.fileno())
        self._is_ready = False

    @property
    def is_alive(self) -> bool:
        """Whether the process still runs."""
        return self._process.poll() is None

    @property
    def is_open(self) -> bool:
        """Whether the fork server still holds its end of the socket; in a forked process, too."""
        try:
            return bool(self._control.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT))
        except BlockingIOError:
            return True
        except OSError:
            return False

    def close(self) -> None:
        """End the process and everything in its sandbox."""
        self._control.close()
        kill_group(self._process)

    def start_conversation(self, child_seconds: float, fork: Fork | None) -> "ForkedConversation":
        """Start a fresh process for one submission.

        Args:
            child_seconds: Processor time after which it ends, of all that it starts.
            fork: What it keeps of the course; all, where no answer is observed.

        Raises:
            GoneError: If the fork server has ended.
        """
        requests, their_requests = socket.socketpair()
        supervisor, their_supervisor = socket.socketpair()
        with their_requests, their_supervisor:
            descriptors = [their_requests.fileno(), their_supervisor.fileno()]
            try:
                socket.send_fds(self._control, [f"{child_seconds}".encode()], descriptors)
            except OSError:
                raise GoneError("the sandbox is gone") from None
        return ForkedConversation(requests, supervisor, fork)

    def wait_until_ready(self) -> None:
        """Wait until everything is imported.

        Raises:
            GradingError: If the fork server does not start.
        """
        if self._is_ready:
            return
        self._control.settimeout(START_SECONDS)
        with contextlib.suppress(OSError):
            self._is_ready = self._control.recv(16) == READY
        self._control.settimeout(None)
        if not self._is_ready:
            reason = self._last_words()
            self.close()
            raise GradingError(
                f"The sandbox does not start ({reason}). Is the course's folder readable for "
                "everybody, is the environment whole, and does `make lint` find no error?"
            )

    def _last_words(self) -> str:
        """The last line on stderr, or the exit code."""
        try:
            said = self._process.communicate(timeout=END_SECONDS)[1].decode().strip()
        except subprocess.TimeoutExpired:
            said = ""
        return (said or f"exit code {self._process.returncode}").splitlines()[-1]


class Conversation(ABC):
    """A conversation with the process of one submission.

    Attributes:
        cpu_seconds: Processor time of the process, once it has ended; zero where unknown.
    """

    def __init__(self, requests: socket.socket, fork: Fork | None) -> None:
        self._requests = requests
        self.cpu_seconds = 0.0
        framing.send(requests, fork.to_json() if fork else {}, END_SECONDS)

    def ask(self, request: dict[str, Any], seconds: float) -> Plain:
        """Send a request and wait for its reply.

        Args:
            request: What to do.
            seconds: How long a reply may take, by the clock.

        Raises:
            GoneError: If the process ends, does not reply in time, or replies with no plain data.
        """
        try:
            framing.send(self._requests, request, seconds)
            return framing.receive(self._requests, seconds)
        except TimeoutError:
            raise GoneError(f"it did not come back within {seconds:g} seconds") from None
        except (EOFError, OSError):
            raise GoneError("its process ended") from None
        except (ValueError, TypeError, KeyError, RecursionError, MemoryError):
            raise GoneError("its process sent something that is no plain data") from None
        except Exception as error:
            raise GoneError(
                f"its process sent what cannot be read ({type(error).__name__})"
            ) from None

    @abstractmethod
    def end(self) -> int:
        """End the process with all that it started, and give its exit code."""


class ForkedConversation(Conversation):
    """A conversation with a process of the fork server, which has a supervisor."""

    def __init__(
        self, requests: socket.socket, supervisor: socket.socket, fork: Fork | None = None
    ) -> None:
        super().__init__(requests, fork)
        self._supervisor = supervisor

    def end(self) -> int:
        """End the process with all that it started, and give its exit code."""
        self._requests.close()
        with contextlib.suppress(OSError):
            self._supervisor.shutdown(socket.SHUT_WR)
            self._supervisor.settimeout(END_SECONDS)
            report = json.loads(self._supervisor.recv(200) or b"{}")
            self.cpu_seconds = report.get("cpu_seconds", 0.0)
            self._supervisor.close()
            return int(report.get("exit_code", -1))
        return -1
