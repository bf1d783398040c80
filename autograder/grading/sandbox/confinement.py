"""What one forked process must lose before it may run a student's code.

Bubblewrap closes the room around a program that it starts; a process that is forked from a warm one
inside that room has to leave the others by system calls of its own, which Python 3.11 lacks.
"""

import ctypes
import os
import resource
import signal
from pathlib import Path

MEBIBYTE = 2**20
NEW_NAMESPACES = 0x10000000 | 0x20000000 | 0x00020000 | 0x08000000  # user, pid, mount, ipc
NO_PROGRAMS = 0x2 | 0x4 | 0x8  # nosuid, nodev, noexec
NO_NEW_PRIVILEGES = 38
CAPABILITY_VERSION = 0x20080522

PROC = Path("/proc")
READ_BY_LIBRARIES = ("cpuinfo", "meminfo")

MAX_FILES = 256
MAX_FILE_BYTES = 64 * MEBIBYTE
MAX_FOLDER_BYTES = 128 * MEBIBYTE
MAX_TASKS = 128  # threads and processes together
MAX_NEW_BYTES = 4096 * MEBIBYTE
MAX_CPU_SECONDS = 900
MAX_BYTES_TOGETHER = 6144 * MEBIBYTE

_libc = ctypes.CDLL(None, use_errno=True)


def leave_the_others() -> None:
    """Later children of this process see neither other processes nor their memory or signals.

    Raises:
        OSError: If the system does not allow it.
    """
    user, group = os.getuid(), os.getgid()
    _call("unshare", NEW_NAMESPACES)
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1")


def take_away(hidden: list[Path], folders: list[Path]) -> None:
    """Empty folders of its own, no sight of `/proc` or the hidden places, and no rights.

    Args:
        hidden: Places that look empty afterwards.
        folders: Places to write to; the first is the one to be in.

    Raises:
        OSError: If the system does not allow it.
    """
    facts = {name: (PROC / name).read_text() for name in READ_BY_LIBRARIES}
    for place in (PROC, *hidden):
        _call("mount", b"none", bytes(place), b"tmpfs", 0, b"size=1m")
    for name, text in facts.items():
        (PROC / name).write_text(text)
    for place in folders:
        size = b"size=%d" % MAX_FOLDER_BYTES
        _call("mount", b"none", bytes(place), b"tmpfs", NO_PROGRAMS, size)
    os.chdir(folders[0])
    _call("prctl", NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    _call("capset", (ctypes.c_uint32 * 2)(CAPABILITY_VERSION, 0), (ctypes.c_uint32 * 6)())


def be_first_to_go() -> None:
    """Where memory runs out, the system ends this process and its children before others."""
    Path("/proc/self/oom_score_adj").write_text("1000")


def bytes_below(first: int) -> int:
    """Memory of a process and all others in its world, if it has one of its own.

    A page that several share counts in each.
    """
    world = _world(str(first))
    if world in ("", _world("self")):
        return 0
    others = (entry.name for entry in PROC.iterdir() if entry.name.isdigit())
    return sum(_resident_bytes(name) for name in others if _world(name) == world)


def _world(process: str) -> str:
    try:
        return str((PROC / process / "ns" / "pid").readlink())
    except OSError:  # it ended, or is none of ours
        return ""


def _resident_bytes(process: str) -> int:
    try:
        return int((PROC / process / "statm").read_text().split()[1]) * resource.getpagesize()
    except (OSError, IndexError):
        return 0


def limit() -> None:
    """Bound files, tasks, memory and processor time; a process started later inherits it."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    bounds = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_NOFILE: MAX_FILES,
        resource.RLIMIT_FSIZE: MAX_FILE_BYTES,
        resource.RLIMIT_NPROC: MAX_TASKS,
        resource.RLIMIT_AS: used + MAX_NEW_BYTES,
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
