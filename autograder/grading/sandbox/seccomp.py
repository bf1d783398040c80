"""Filter the system calls of a student process in the kernel, for good.

The socket to the referee can be used only with a secret, passed in an argument that the kernel
ignores there. So code that finds the descriptor can neither read a request, nor forge a reply, nor
copy the descriptor; and what would get around that is refused altogether.

libseccomp makes the filter and knows the numbers of system calls on each kind of machine. It is
called directly, since its packaged bindings look for it with programs that the sandbox lacks.

Sources: Linux manual, seccomp(2) and seccomp_rule_add(3); `sendto` and `recvfrom` ignore the length
of an address that is not given.
"""

import ctypes
import errno
from collections.abc import Iterator

LIBRARY = "libseccomp.so.2"
ALLOW, KILL, REFUSE = 0x7FFF0000, 0x80000000, 0x00050000
UNKNOWN_MACHINE = 2  # attribute of a filter: what happens to calls in another machine's numbers
NOT_EQUAL, MASKED_EQUAL = 1, 7  # comparisons
LOW_HALF = 2**32 - 1  # all that the kernel reads of a descriptor
NEW_NAMESPACES = [1 << bit for bit in (17, 25, 26, 27, 28, 29, 30)]  # flags of `clone`
SET_SECCOMP = 22  # option of `prctl`
NUM_CALLS = 512  # all numbers of system calls are below, also of those to come

REFUSED = (
    # memory, descriptors and registers of other processes
    "ptrace",
    "process_vm_readv",
    "process_vm_writev",
    "kcmp",
    "pidfd_getfd",
    # a kernel thread reads and writes, on descriptors that stand in memory
    "io_setup",
    "io_submit",
    "io_uring_setup",
    "io_uring_enter",
    "io_uring_register",
    # the descriptor passed on in a message
    "sendmsg",
    "sendmmsg",
    # a further filter, which could report the arguments of calls, and with them the secret
    "seccomp",
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


def install_filter(descriptor: int, secret: int) -> bool:
    """Install the filter for this thread and all that it starts.

    Args:
        descriptor: The socket to the referee.
        secret: What each call on the socket must pass; at most 31 bits.

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
        for action, call, all_of in _rules(descriptor, secret)
    ]
    return not any(failed) and bool(library.seccomp_load(made) == 0)


def number_of(name: str) -> int:
    """The number of a system call on this machine, negative if there is none.

    Raises:
        OSError: If libseccomp is not installed.
    """
    return int(ctypes.CDLL(LIBRARY).seccomp_syscall_resolve_name(name.encode()))


def _rules(descriptor: int, secret: int) -> Iterator[Rule]:
    refused = [number_of(name) for name in REFUSED]
    yield from ((REFUSE | errno.EPERM, call, []) for call in refused)
    yield REFUSE | errno.ENOSYS, number_of("clone3"), []  # its flags cannot be seen
    for flag in NEW_NAMESPACES:
        yield REFUSE | errno.EPERM, number_of("clone"), [Comparison(0, MASKED_EQUAL, flag, flag)]
    filters = Comparison(0, MASKED_EQUAL, LOW_HALF, SET_SECCOMP)
    yield REFUSE | errno.EPERM, number_of("prctl"), [filters]
    first, third = (Comparison(place, MASKED_EQUAL, LOW_HALF, descriptor) for place in (0, 2))
    yield KILL, number_of("splice"), [third]  # of other calls it is first, or may be no socket
    # The last argument is the length of an address, ignored without one: it holds the secret.
    guarded = [number_of(name) for name in ("sendto", "recvfrom")]
    yield from ((KILL, call, [first, Comparison(5, NOT_EQUAL, secret)]) for call in guarded)
    others = (call for call in range(NUM_CALLS) if call not in (*refused, *guarded))
    yield from ((REFUSE | errno.EPERM, call, [first]) for call in others)
