"""How the referee reaches the sandbox: a conversation for each submission, and its limits."""

import contextlib
import json
import os
import signal
import socket
import subprocess
from abc import ABC, abstractmethod
from typing import Any

from autograder.grading.sandbox import framing
from autograder.grading.sandbox.bubblewrap import Launcher
from autograder.grading.sandbox.framing import Reply

FORK_SERVER = "autograder.grading.sandbox.fork_server"
READY = b"ready"
START_SECONDS = 120.0
END_SECONDS = 10.0
MAX_REPLY_BYTES = 2**28


class GoneError(RuntimeError):
    """The process in which a submission ran is gone; the message says how."""


class Client:
    """The way into a fork server, which several processes may share."""

    def __init__(self, control: socket.socket) -> None:
        """Take the socket on which conversations are announced."""
        self._control = control

    @property
    def is_open(self) -> bool:
        """Whether somebody is behind it."""
        try:
            return bool(self._control.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT))
        except BlockingIOError:
            return True
        except OSError:
            return False

    def converse(self) -> "ForkedConversation":
        """A fresh process for one submission.

        Raises:
            GoneError: If nobody is there any more.
        """
        talk, their_talk = socket.socketpair()
        life, their_life = socket.socketpair()
        with their_talk, their_life:
            both = [their_talk.fileno(), their_life.fileno()]
            try:
                socket.send_fds(self._control, [b"+"], both)
            except OSError:
                raise GoneError("the sandbox is gone") from None
        return ForkedConversation(talk, life)


class ForkServer:
    """A warm program in a room, from which processes for submissions come."""

    def __init__(self, room: Launcher) -> None:
        """Start it; it gets warm while the caller goes on."""
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.client = Client(self._control)
        with theirs:
            self._process = room.start(FORK_SERVER, theirs.fileno())
        self._is_ready = False

    @property
    def is_alive(self) -> bool:
        """Whether the program still runs."""
        return self._process.poll() is None

    def converse(self) -> "ForkedConversation":
        """A fresh process for one submission.

        Raises:
            GoneError: If the room cannot be started.
        """
        self.wait_until_ready()
        return self.client.converse()

    def close(self) -> None:
        """End the program and everything in its room."""
        self._control.close()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()

    def wait_until_ready(self) -> None:
        """Wait until it is warm.

        Raises:
            GoneError: If the room cannot be started.
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
            raise GoneError(
                f"The sandbox does not start ({reason}). Is the course's folder readable for "
                "everybody, is the environment whole, and does `make lint` find no error?"
            )

    def _last_words(self) -> str:
        """What it complained of last, if it ended by itself."""
        try:
            said = self._process.communicate(timeout=END_SECONDS)[1].decode().strip()
        except subprocess.TimeoutExpired:
            said = ""
        return (said or f"exit code {self._process.returncode}").splitlines()[-1]


class Conversation(ABC):
    """A conversation with the process of one submission.

    Attributes:
        cpu_seconds: What it took, where that is known when it has ended.
    """

    def __init__(self, talk: socket.socket) -> None:
        """Take this end of a socket."""
        self._talk = talk
        self.cpu_seconds = 0.0

    def ask(self, request: dict[str, Any], seconds: float, *, is_watched: bool = False) -> Reply:
        """Send a request and wait for its reply.

        Args:
            request: What to do.
            seconds: How long a reply may take, by the clock.
            is_watched: Whether it is to be told what was replaced meanwhile.

        Raises:
            GoneError: If the process ends, does not reply in time, or replies with no plain data.
        """
        try:
            framing.send(self._talk, request, seconds, framing.WATCH if is_watched else b"")
            return framing.receive(self._talk, MAX_REPLY_BYTES, seconds)
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
    """A conversation with a process of the fork server, which a supervisor watches."""

    def __init__(self, talk: socket.socket, life: socket.socket) -> None:
        """Take the ends of the sockets to the process and to its supervisor."""
        super().__init__(talk)
        self._life = life

    def end(self) -> int:
        """End the process with all that it started, and give its exit code."""
        self._talk.close()
        with contextlib.suppress(OSError):
            self._life.shutdown(socket.SHUT_WR)
            self._life.settimeout(END_SECONDS)
            told = json.loads(self._life.recv(200) or b"{}")
            self.cpu_seconds = told.get("cpu_seconds", 0.0)
            self._life.close()
            return int(told.get("exit_code", -1))
        return -1
