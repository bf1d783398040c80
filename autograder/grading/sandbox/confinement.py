"""Confine one forked process before it runs a student's code: namespaces, mounts, limits.

Bubblewrap isolates a program that it starts. A process that is forked later inside that sandbox has
to isolate itself from its siblings, by system calls that Python 3.11 lacks.
"""

import ctypes
import os
import resource
import signal
from pathlib import Path

MEBIBYTE = 2**20
NEW_NAMESPACES = 0x10000000 | 0x20000000 | 0x08000000  # user, pid, ipc
NEW_MOUNTS = 0x00020000
BIND = 0x1000
NO_PROGRAMS = 0x2 | 0x4 | 0x8  # nosuid, nodev, noexec
NO_NEW_PRIVILEGES = 38
CAPABILITY_VERSION = 0x20080522

PROC = Path("/proc")
TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
READ_BY_LIBRARIES = ("cpuinfo", "meminfo")

MAX_FILES = 256
MAX_FILE_BYTES = 64 * MEBIBYTE
MAX_FOLDER_BYTES = 128 * MEBIBYTE
MAX_TASKS = 128  # threads and processes together
MAX_NEW_BYTES = 4096 * MEBIBYTE
MAX_CPU_SECONDS = 900
MAX_TOTAL_BYTES = 6144 * MEBIBYTE

_libc = ctypes.CDLL(None, use_errno=True)


def unshare_namespaces() -> None:
    """Give later children of this process user, pid and ipc namespaces of their own.

    Raises:
        OSError: If the system does not allow it.
    """
    user, group = os.getuid(), os.getgid()
    _call("unshare", NEW_NAMESPACES)
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1")


def restrict_file_system(hidden: list[Path], folders: list[Path]) -> None:
    """Hide `/proc` and other places, mount empty ones to write to, and drop all capabilities.

    Args:
        hidden: Folders and files that are empty afterwards.
        folders: Folders to write to; the first becomes the working directory.

    Raises:
        OSError: If the system does not allow it.
    """
    _call("unshare", NEW_MOUNTS)  # the supervisor goes on to see the real `/proc`
    facts = {name: (PROC / name).read_text() for name in READ_BY_LIBRARIES}
    for path in (PROC, *hidden):
        if path.is_dir():
            _call("mount", b"none", bytes(path), b"tmpfs", 0, b"size=1m")
        elif path.exists():  # not in a folder that is hidden already
            _call("mount", bytes(Path(os.devnull)), bytes(path), None, BIND, None)
    for name, text in facts.items():
        (PROC / name).write_text(text)
    for folder in folders:
        size = b"size=%d" % MAX_FOLDER_BYTES
        _call("mount", b"none", bytes(folder), b"tmpfs", NO_PROGRAMS, size)
    os.chdir(folders[0])
    _call("prctl", NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    _call("capset", (ctypes.c_uint32 * 2)(CAPABILITY_VERSION, 0), (ctypes.c_uint32 * 6)())


def prefer_for_oom_kill() -> None:
    """When memory runs out, the kernel kills this process and its children before others."""
    Path("/proc/self/oom_score_adj").write_text("1000")


class Namespace:
    """What the processes in the pid namespace of a process take; nothing if it is our own.

    Attributes:
        num_bytes: Their resident memory; a page that several share counts in each.
    """

    def __init__(self, first: int) -> None:
        self._first, self.num_bytes = str(first), 0
        self._running: dict[tuple[str, str], float] = {}
        self._ended_seconds = self._waited_seconds = 0.0

    @property
    def child_seconds(self) -> float:
        """Processor time of all but the first: as we saw it, or as those who waited for them."""
        return max(self._ended_seconds + sum(self._running.values()), self._waited_seconds)

    def look(self) -> None:
        """Look at all processes that run now."""
        running, self.num_bytes, self._waited_seconds = {}, 0, 0.0
        for process in self._processes():
            start, seconds, waited = _times(process)
            running[process, start] = 0.0 if process == self._first else seconds
            self._waited_seconds += waited
            self.num_bytes += _resident_bytes(process)
        self._ended_seconds += sum(self._running[each] for each in self._running.keys() - running)
        self._running = running

    def _processes(self) -> list[str]:
        namespace = _pid_namespace(self._first)
        if namespace in ("", _pid_namespace("self")):
            return []
        processes = (entry.name for entry in PROC.iterdir() if entry.name.isdigit())
        return [each for each in processes if _pid_namespace(each) == namespace]


def _pid_namespace(process: str) -> str:
    try:
        return str((PROC / process / "ns" / "pid").readlink())
    except OSError:  # it has ended, or is not ours to look at
        return ""


def _times(process: str) -> tuple[str, float, float]:
    """When a process began, and the processor seconds of itself and of those it waited for."""
    try:
        fields = (PROC / process / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return "", 0.0, 0.0
    user, system, waited_user, waited_system = (
        int(each) / TICKS_A_SECOND for each in fields[11:15]
    )
    return fields[19], user + system, waited_user + waited_system


def _resident_bytes(process: str) -> int:
    try:
        return int((PROC / process / "statm").read_text().split()[1]) * resource.getpagesize()
    except (OSError, IndexError):
        return 0


def used_bytes() -> int:
    """Size of this process's memory as the kernel limits it, whether it is used or not.

    Raises:
        OSError: Where there is no `/proc`.
    """
    return int((PROC / "self" / "statm").read_text().split()[0]) * resource.getpagesize()


def set_limits() -> None:
    """Limit files, tasks, memory and processor time of this process and its children."""
    bounds = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_NOFILE: MAX_FILES,
        resource.RLIMIT_FSIZE: MAX_FILE_BYTES,
        resource.RLIMIT_NPROC: MAX_TASKS,
        resource.RLIMIT_AS: used_bytes() + MAX_NEW_BYTES,
        resource.RLIMIT_CPU: MAX_CPU_SECONDS,
    }
    for kind, bound in bounds.items():
        resource.setrlimit(kind, (bound, bound))
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def _call(name: str, *arguments: object) -> None:
    if getattr(_libc, name)(*arguments):
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
