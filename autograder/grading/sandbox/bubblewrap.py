"""Run students' code in a sandbox made by bubblewrap, where it is installed.

The sandbox holds Python with its packages and the course's packages, all read-only. It has no
network, no home directory, no other student's work and no gradebook.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from autograder.grading.course_version import PACKAGES, SOURCE
from autograder.grading.errors import GradingError

# Where the sandbox sees the course and Python's virtual environment.
COURSE, VIRTUAL_ENVIRONMENT = Path("/course"), Path("/environment")
SYSTEM = ("/usr", "/lib", "/lib64", "/bin", "/etc/ld.so.cache", "/etc/alternatives")
NOBODY = "65534"
ENVIRONMENT = {
    "USER": "student",
    "PATH": "/usr/bin:/bin",
    "LANG": "C.UTF-8",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "MPLBACKEND": "module://matplotlib_inline.backend_inline",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONHASHSEED": "0",
    "NBGRADER_EXECUTION": "autograde",
}
TRIAL_SECONDS = 20
HOW_TO_GET = "install bubblewrap (`apt-get install bubblewrap`)"


class SandboxUnavailableError(GradingError):
    """No sandbox can be made here; the message says what to do."""


@dataclass(frozen=True)
class Launcher:
    """How to start Python for students' code.

    Attributes:
        wrapper: The command that runs Python, empty without a sandbox.
        source: Folder of the course's packages, as the process sees it.
        python: Path of Python, as the process sees it.
    """

    wrapper: tuple[str, ...]
    source: Path
    python: str

    def start(self, module: str, descriptor: int, folder: str = "/tmp") -> subprocess.Popen[bytes]:
        """Run a module in a folder and pass it one open descriptor to communicate through.

        Its stderr is a pipe, so that the caller can report why it did not start.
        """
        command = [*self.wrapper, self.python, "-m", module, str(descriptor)]
        paths = {"HOME": folder, "MPLCONFIGDIR": folder, "PYTHONPATH": str(self.source)}
        return subprocess.Popen(
            command,
            env=ENVIRONMENT | paths,
            pass_fds=(descriptor,),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
            cwd=folder,
        )


UNSANDBOXED = Launcher(wrapper=(), source=SOURCE, python=sys.executable)


@cache
def sandboxed() -> Launcher:
    """A launcher that runs Python under bubblewrap.

    Raises:
        SandboxUnavailableError: If bubblewrap is not installed or lacks the rights it needs.
    """
    launcher = Launcher(tuple(_bubblewrap_command()), COURSE, _python_in_sandbox())
    try:
        exit_code, said = _trial(launcher)
    except (FileNotFoundError, PermissionError):
        raise SandboxUnavailableError(_refusal("bubblewrap is not installed")) from None
    except subprocess.TimeoutExpired:
        raise SandboxUnavailableError(_refusal("bubblewrap does not answer")) from None
    if exit_code:
        reason = said.strip().splitlines()[-1:] or [f"exit code {exit_code}"]
        raise SandboxUnavailableError(_refusal(f"bubblewrap cannot make a sandbox ({reason[0]})"))
    return launcher


def kill_group(process: "subprocess.Popen[Any]") -> None:
    """Kill a process that leads a session, with all of its group, and wait for its end."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def _trial(launcher: Launcher) -> tuple[int, str]:
    """The exit code and stderr of a Python that does nothing.

    Raises:
        FileNotFoundError: If there is no bubblewrap.
        PermissionError: If this user may not start it.
        subprocess.TimeoutExpired: If it comes to no end.
    """
    command = (*launcher.wrapper, launcher.python, "-c", "")
    # Ctrl-C would end bubblewrap alone: its child waits for it for ever, deaf to all but SIGKILL.
    process = subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        _, said = process.communicate(timeout=TRIAL_SECONDS)
    finally:
        kill_group(process)
    return process.returncode, said


def _refusal(why: str) -> str:
    return (
        f"Students' code is not run, because it could read files and use the network: {why}. "
        f"Either {HOW_TO_GET}, or run `make grade` with ARGS=--unsafe on a machine that holds "
        "nothing else."
    )


def _bubblewrap_command() -> list[str]:
    words = [shutil.which("bwrap") or "bwrap", "--die-with-parent", "--new-session"]
    words += ["--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts"]
    words += ["--cap-drop", "ALL", *_mounts(), "--proc", "/proc", "--dev", "/dev"]
    words += ["--perms", "1777", "--size", str(2**28), "--tmpfs", "/tmp", "--chdir", "/tmp"]
    words += ["--remount-ro", "/dev", "--remount-ro", "/"]
    if os.getuid() != 0:
        return [*words, "--unshare-user"]
    # The kernel does not limit root's processes: run as the user `nobody` instead.
    for capability in ("CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP"):
        words += ["--cap-add", capability]
    words += ["setpriv", "--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"]
    return [*words, "--inh-caps=-all", "--bounding-set=-all", "--no-new-privs"]


def _python_in_sandbox() -> str:
    """Path of Python in the sandbox, where a virtual environment has a mount of its own."""
    if sys.prefix == sys.base_prefix:
        return sys.executable
    return str(VIRTUAL_ENVIRONMENT / Path(sys.executable).relative_to(sys.prefix))


def _mounts() -> list[str]:
    """Options that mount Python, its packages and the course, and nothing else."""
    words = [word for path in SYSTEM for word in ("--ro-bind-try", path, path)]
    base = Path(sys.base_prefix)
    if Path("/usr") not in (base, *base.parents):
        words += _mount(base, base)
    if sys.prefix != sys.base_prefix:
        words += _mount(Path(sys.prefix), VIRTUAL_ENVIRONMENT)
    return words + [word for name in PACKAGES for word in _mount(SOURCE / name, COURSE / name)]


def _mount(path: Path, target: Path) -> list[str]:
    """Options that mount a folder read-only, with parents that everybody may enter."""
    # Without them bubblewrap makes the parents itself, readable for root alone.
    parents = list(target.parents)[-2::-1]
    words = [word for folder in parents for word in ("--perms", "0755", "--dir", str(folder))]
    return [*words, "--ro-bind", str(path), str(target)]
