"""Run `pip install`, with progress for the user and one sentence if it fails.

Standard library only, since it runs before anything is installed.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import threading
import time
import urllib.parse
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path

from autograder.student.errors import CommandError, say

# Free space while installing: pip keeps the download, the unpacked files and its cache at once.
CPU_BUILD_BYTES = 2 * 10**9
CUDA_BUILD_BYTES = 6 * 10**9
SPACE_WANTED = (
    f"Installing needs about {CUDA_BUILD_BYTES // 10**9} GB of free disk space with the CUDA build "
    f"of torch and {CPU_BUILD_BYTES // 10**9} GB with its CPU build"
)

HEARTBEAT_SECONDS = 10

PROGRESS = (
    (re.compile(r"\s*Downloading (\S+?)-\d\S* \((\d.*[MG]B)\)"), "downloading {} ({})"),
    (re.compile(r"(Installing) collected packages"), "unpacking and installing"),
)
GIVE_UP_SECONDS = 60
INDEXES = re.compile(r"Looking in indexes: (.*)")
RETRYING = re.compile(r"WARNING: Retrying .* after connection broken by .*: (/\S*)$")
NOT_FOUND = ("No matching distribution", "Connection", "Retrying", "name resolution", "Read timed")


def pip(root: Path, *arguments: str) -> None:
    """Run `pip install` in the environment, with the user's own pip settings and variables.

    Extra indexes from the variable are options here, which pip adds to those of its settings; the
    variable itself would replace them.
    """
    options = ["--disable-pip-version-check", "--no-input", "install", "--progress-bar", "off"]
    for url in os.environ.get("PIP_EXTRA_INDEX_URL", "").split():
        options += ["--extra-index-url", url]
    command = [str(root / ".venv" / "bin" / "python"), "-m", "pip", *options, *arguments]
    status, tail = stream(command, root)
    if status:
        raise CommandError("\n".join(["pip's last lines:", *tail, explain_failure(tail)]))


def explain_failure(tail: Sequence[str]) -> str:
    """Why pip failed, guessed from its last lines, and what to do."""
    text = "\n".join(tail)
    again = "and run the same command again; it goes on from there."
    if "No space left" in text:
        return (
            f"The disk is full. {SPACE_WANTED}: make room (also in the folder for temporary "
            f"files, TMPDIR) {again}"
        )
    if any(word in text for word in NOT_FOUND):
        return (
            "pip could not get the packages named above from the network: check the connection "
            f"(a proxy, a mirror that lacks a package) {again}"
        )
    return f"pip could not install the packages, see its lines above: fix that {again}"


def stream(command: Sequence[str], cwd: Path) -> tuple[int, list[str]]:
    """Run a command and report its progress; returns its exit status and last lines.

    Raises:
        CommandError: If pip waits too long for an index that does not answer.
    """
    tail: deque[str] = deque(maxlen=8)
    silence = _Silence()
    environ = {**os.environ, "PIP_USER": "0"}  # pip's user installs bypass the environment
    environ.pop("PIP_EXTRA_INDEX_URL", None)
    with subprocess.Popen(
        command, cwd=cwd, env=environ, text=True, errors="replace",
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    ) as process, heartbeat():  # fmt: skip
        assert process.stdout is not None
        try:
            for line in process.stdout:
                tail.append(line.rstrip()[:250])
                report_progress(line)
                silence.read(line)
        except (CommandError, KeyboardInterrupt):
            stop(process)
            raise
    return process.returncode, list(tail)


class _Silence:
    """How long pip has waited, in all, for package indexes that do not answer."""

    def __init__(self) -> None:
        self._indexes: list[str] = []
        self._told: set[str] = set()
        self._seconds = 0.0
        self._since: float | None = None

    def read(self, line: str) -> None:
        """Take in one line of pip.

        Raises:
            CommandError: If it has waited for more than `GIVE_UP_SECONDS`.
        """
        now = time.monotonic()
        if self._since is not None:
            self._seconds += now - self._since
            self._since = None
        if found := INDEXES.match(line):
            self._indexes = found[1].split(", ")
        if found := RETRYING.match(line):
            self._since = now
            self._wait_for(self._host_of(found[1]))

    def _wait_for(self, host: str) -> None:
        if host not in self._told:
            self._told.add(host)
            say(f"    {host} does not answer; pip is retrying")
        if self._seconds > GIVE_UP_SECONDS:
            raise CommandError(
                f"{host} does not answer, and pip has waited {GIVE_UP_SECONDS} s for it. Check the "
                "connection, a proxy, and the address of the index (in PIP_INDEX_URL, "
                "PIP_EXTRA_INDEX_URL or pip.conf), or leave an extra index out; then run the same "
                "command again, and it goes on from there."
            )

    def _host_of(self, path: str) -> str:
        """The index that a path belongs to; pip does not name it when it retries."""
        urls = [urllib.parse.urlsplit(index) for index in self._indexes]
        fitting = [url for url in urls if url.path and path.startswith(url.path)]
        longest = max(fitting, key=lambda url: len(url.path), default=None)
        return longest.hostname or "the package index" if longest else "the package index"


def report_progress(line: str) -> None:
    """Print the few lines of pip that a waiting user wants to see."""
    for pattern, text in PROGRESS:
        found = pattern.match(line)
        if found:
            say("    " + text.format(*found.groups()))


def stop(process: subprocess.Popen[str]) -> None:
    """Wait for a child that probably got the same Ctrl-C; terminate it if it takes too long."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=3)
    process.terminate()


@contextlib.contextmanager
def heartbeat() -> Iterator[None]:
    """Print a sign of life now and then: the largest download is silent for minutes."""
    done = threading.Event()

    def beat() -> None:
        seconds = 0
        while not done.wait(HEARTBEAT_SECONDS):
            seconds += HEARTBEAT_SECONDS
            say(f"    still working, {seconds} s")

    threading.Thread(target=beat, daemon=True).start()
    try:
        yield
    finally:
        done.set()
