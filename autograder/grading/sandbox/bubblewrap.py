"""The closed room in which students' code runs, made by bubblewrap where it is installed.

In the room there is Python with its packages and the course's package, all of it read-only; no
network, no home, no work of other students, no gradebook.
"""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).parents[3]
PACKAGES = ("autograder", "course_utils")
COURSE, ENVIRONMENT_IN_ROOM = Path("/course"), Path("/environment")
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


class NoIsolationError(RuntimeError):
    """Files and network cannot be shut off here; the message says what to do."""


@dataclass(frozen=True)
class Launcher:
    """A way to start Python for students' code.

    Attributes:
        prefix: What stands before the program.
        source: Where the room has the course's packages.
        python: Where it has Python.
    """

    prefix: tuple[str, ...]
    source: Path
    python: str

    def start(self, module: str, descriptor: int, folder: str = "/tmp") -> subprocess.Popen[bytes]:
        """Run a module of the sandbox in a folder; it gets one open descriptor to talk through.

        What it says on stderr can be read where it does not start.
        """
        words = [*self.prefix, self.python, "-m", module, str(descriptor)]
        places = {"HOME": folder, "MPLCONFIGDIR": folder, "PYTHONPATH": str(self.source)}
        return subprocess.Popen(
            words,
            env=ENVIRONMENT | places,
            pass_fds=(descriptor,),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
            cwd=folder,
        )


UNISOLATED = Launcher(prefix=(), source=SOURCE, python=sys.executable)


@cache
def isolated() -> Launcher:
    """The room that bubblewrap closes.

    Raises:
        NoRoomError: If it is not installed or not allowed to.
    """
    room = Launcher(tuple(_bubblewrap()), COURSE, _python())
    trial = (*room.prefix, room.python, "-c", "")
    try:
        done = subprocess.run(
            trial, capture_output=True, text=True, timeout=TRIAL_SECONDS, check=False
        )
    except FileNotFoundError:
        raise NoIsolationError(_refusal("bubblewrap is not installed")) from None
    except subprocess.TimeoutExpired:
        raise NoIsolationError(_refusal("bubblewrap does not answer")) from None
    if done.returncode:
        reason = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        raise NoIsolationError(_refusal(f"bubblewrap cannot close a room ({reason[0]})"))
    return room


def _refusal(why: str) -> str:
    return (
        f"Students' code is not run, because it could read files and use the network: {why}. "
        f"Either {HOW_TO_GET}, or `make grade` with ARGS=--unsafe where nothing else is held."
    )


def _bubblewrap() -> list[str]:
    words = [shutil.which("bwrap") or "bwrap", "--die-with-parent", "--new-session"]
    words += ["--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts"]
    words += ["--cap-drop", "ALL", *_places(), "--proc", "/proc", "--dev", "/dev"]
    words += ["--perms", "1777", "--size", str(2**28), "--tmpfs", "/tmp", "--chdir", "/tmp"]
    words += ["--remount-ro", "/dev", "--remount-ro", "/"]
    if os.getuid() != 0:
        return [*words, "--unshare-user"]
    # The limit on processes does not hold for root: its room is left to nobody.
    for capability in ("CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP"):
        words += ["--cap-add", capability]
    words += ["setpriv", "--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"]
    return [*words, "--inh-caps=-all", "--bounding-set=-all", "--no-new-privs"]


def _python() -> str:
    """Python in the room: that of the environment, which lies in a place of its own there."""
    if sys.prefix == sys.base_prefix:
        return sys.executable
    return str(ENVIRONMENT_IN_ROOM / Path(sys.executable).relative_to(sys.prefix))


def _places() -> list[str]:
    """Options that show Python, its packages and the course, and nothing else."""
    words = [word for place in SYSTEM for word in ("--ro-bind-try", place, place)]
    base = Path(sys.base_prefix)
    if Path("/usr") not in (base, *base.parents):
        words += _shown(base, base)
    if sys.prefix != sys.base_prefix:
        words += _shown(Path(sys.prefix), ENVIRONMENT_IN_ROOM)
    return words + [word for name in PACKAGES for word in _shown(SOURCE / name, COURSE / name)]


def _shown(place: Path, where: Path) -> list[str]:
    return [*_folders_to(where), "--ro-bind", str(place), str(where)]


def _folders_to(place: Path) -> list[str]:
    """The folders above a place, which bubblewrap would close to everyone but root."""
    above = list(place.parents)[-2::-1]
    return [word for folder in above for word in ("--perms", "0755", "--dir", str(folder))]
