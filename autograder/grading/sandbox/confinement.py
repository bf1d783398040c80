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
MAX_TOTAL_BYTES = 6144 * MEBIBYTE

_libc = ctypes.CDLL(None, use_errno=True)


def unshare_namespaces() -> None:
    """Give later children of this process user, pid, mount and ipc namespaces of their own.

    Raises:
        OSError: If the system does not allow it.
    """
    user, group = os.getuid(), os.getgid()
    _call("unshare", NEW_NAMESPACES)
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1")


def restrict_file_system(hidden: list[Path], folders: list[Path]) -> None:
    """Hide `/proc` and other folders, mount empty ones to write to, and drop all capabilities.

    Args:
        hidden: Folders that are empty afterwards.
        folders: Folders to write to; the first becomes the working directory.

    Raises:
        OSError: If the system does not allow it.
    """
    facts = {name: (PROC / name).read_text() for name in READ_BY_LIBRARIES}
    for folder in (PROC, *hidden):
        _call("mount", b"none", bytes(folder), b"tmpfs", 0, b"size=1m")
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


def namespace_bytes(first: int) -> int:
    """Resident bytes of all processes in the pid namespace of a process; zero if it is our own.

    A page that several processes share counts in each.
    """
    namespace = _pid_namespace(str(first))
    if namespace in ("", _pid_namespace("self")):
        return 0
    processes = (entry.name for entry in PROC.iterdir() if entry.name.isdigit())
    return sum(_resident_bytes(each) for each in processes if _pid_namespace(each) == namespace)


def _pid_namespace(process: str) -> str:
    try:
        return str((PROC / process / "ns" / "pid").readlink())
    except OSError:  # it has ended, or is not ours to look at
        return ""


def _resident_bytes(process: str) -> int:
    try:
        return int((PROC / process / "statm").read_text().split()[1]) * resource.getpagesize()
    except (OSError, IndexError):
        return 0


def set_limits() -> None:
    """Limit files, tasks, memory and processor time of this process and its children."""
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
