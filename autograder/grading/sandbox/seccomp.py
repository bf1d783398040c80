"""Filter the system calls of a student process in the kernel, for good.

What no exercise needs is refused: other namespaces, mounts and processes, and what holds memory
that no limit counts.

libseccomp makes the filter and knows the numbers of system calls on each kind of machine. It is
called directly, since its packaged bindings look for it with programs that the sandbox lacks.

Sources: Linux manual, seccomp(2) and seccomp_rule_add(3).
"""

import ctypes
import errno
from collections.abc import Iterator

LIBRARY = "libseccomp.so.2"
ALLOW, KILL, REFUSE = 0x7FFF0000, 0x80000000, 0x00050000
UNKNOWN_MACHINE = 2  # attribute of a filter: what happens to calls in another machine's numbers
MASKED_EQUAL = 7  # a comparison
NEW_NAMESPACES = [1 << bit for bit in (17, 25, 26, 27, 28, 29, 30)]  # flags of `clone`

REFUSED = (
    # memory, descriptors and registers of other processes
    "ptrace",
    "process_vm_readv",
    "process_vm_writev",
    "kcmp",
    "pidfd_getfd",
    # a kernel thread reads and writes, and is not stopped
    "io_setup",
    "io_submit",
    "io_uring_setup",
    "io_uring_enter",
    "io_uring_register",
    # namespaces, mounts and roots
    "unshare",
    "setns",
    "mount",
    "umount2",
    "pivot_root",
    "chroot",
    "open_tree",
    "move_mount",
    "mount_setattr",
    "fsopen",
    "fspick",
    "open_by_handle_at",
    # programs, page faults and counters in the kernel, and its keys
    "bpf",
    "userfaultfd",
    "perf_event_open",
    "add_key",
    "request_key",
    "keyctl",
    # memory that no limit counts
    "memfd_create",
    "memfd_secret",
)


class Comparison(ctypes.Structure):
    """A comparison with one argument of a system call; of a masked one, the mask comes first."""

    _fields_ = (
        ("argument", ctypes.c_uint),
        ("kind", ctypes.c_int),
        ("operand", ctypes.c_uint64),
        ("masked_operand", ctypes.c_uint64),
    )


Rule = tuple[int, int, list[Comparison]]  # action, number of the call, what must hold


def is_supported() -> bool:
    """Whether this machine has libseccomp, and that knows all calls in question."""
    try:
        return all(number_of(name) >= 0 for name in REFUSED)
    except OSError:
        return False


def install_filter() -> bool:
    """Install the filter for this thread and all that it starts.

    Returns:
        Whether this machine is supported and the kernel accepted the filter.
    """
    if not is_supported():
        return False
    library = ctypes.CDLL(LIBRARY)
    library.seccomp_init.restype = ctypes.c_void_p
    made = ctypes.c_void_p(library.seccomp_init(ctypes.c_uint32(ALLOW)))
    library.seccomp_attr_set(made, UNKNOWN_MACHINE, ctypes.c_uint32(KILL))
    failed = [
        library.seccomp_rule_add_array(
            made, ctypes.c_uint32(action), call, len(all_of), (Comparison * len(all_of))(*all_of)
        )
        for action, call, all_of in _rules()
    ]
    return not any(failed) and bool(library.seccomp_load(made) == 0)


def number_of(name: str) -> int:
    """The number of a system call on this machine, negative if there is none.

    Raises:
        OSError: If libseccomp is not installed.
    """
    return int(ctypes.CDLL(LIBRARY).seccomp_syscall_resolve_name(name.encode()))


def _rules() -> Iterator[Rule]:
    yield from ((REFUSE | errno.EPERM, number_of(name), []) for name in REFUSED)
    yield REFUSE | errno.ENOSYS, number_of("clone3"), []  # its flags cannot be seen
    for flag in NEW_NAMESPACES:
        yield REFUSE | errno.EPERM, number_of("clone"), [Comparison(0, MASKED_EQUAL, flag, flag)]
