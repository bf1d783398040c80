"""Filter the system calls of a student process in the kernel, for good.

The filter refuses calls that look into other processes, open new namespaces or hold memory that no
limit counts. The socket to the referee can be used only with a secret, passed in an argument that
the kernel ignores there. So code that finds the descriptor can neither read a request, nor forge a
reply, nor copy the descriptor.

Sources: Linux manual, seccomp(2); `sendto` and `recvfrom` ignore the length of an address that is
not given.
"""

import ctypes
import errno
import platform
import struct
from collections.abc import Iterator
from typing import NamedTuple

SET_FILTER, FILTER = 22, 2  # prctl
LOAD, EQUAL, ANY_BIT, RETURN = 0x20, 0x15, 0x45, 0x06
ALLOW, KILL, REFUSE = 0x7FFF0000, 0x80000000, 0x00050000
NUMBER, ARCHITECTURE, FIRST_ARGUMENT = 0, 4, 16
NEW_NAMESPACES = 0x7E020000
OTHER_NUMBERS = 0x40000000  # those of x32

# Audit number of the architecture, and its column in the table below.
MACHINES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
SEND_AND_RECEIVE = ((44, 206), (45, 207))  # sendto, recvfrom
SPLICE = (275, 76)
CLONE, CLONE3 = (56, 220), (435, 435)
REFUSED = {
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "kcmp": (312, 272),
    "pidfd_getfd": (438, 438),
    "unshare": (272, 97),
    "setns": (308, 268),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "open_by_handle_at": (304, 265),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "sendmsg": (46, 211),  # could pass the descriptor on
    "sendmmsg": (307, 269),
}


class Instruction(NamedTuple):
    """One BPF instruction: operation, jump offsets if true and if false, and operand."""

    code: int
    jump_true: int
    jump_false: int
    operand: int


def is_supported() -> bool:
    """Whether the table above has the system calls of this machine."""
    return platform.system() == "Linux" and platform.machine() in MACHINES


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
    steps = list(_program(*MACHINES[platform.machine()], descriptor, secret))
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    program = struct.pack("HxxxxxxQ", len(steps), ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    return bool(libc.prctl(SET_FILTER, FILTER, program, 0, 0) == 0)


def _program(architecture: int, column: int, descriptor: int, secret: int) -> Iterator[Instruction]:
    yield Instruction(LOAD, 0, 0, ARCHITECTURE)
    yield from _unless(EQUAL, architecture, KILL)
    yield Instruction(LOAD, 0, 0, NUMBER)
    yield from _where(ANY_BIT, OTHER_NUMBERS, KILL)
    for numbers in REFUSED.values():
        yield from _where(EQUAL, numbers[column], REFUSE | errno.EPERM)
    yield from _where(EQUAL, CLONE3[column], REFUSE | errno.ENOSYS)  # its flags cannot be seen
    flags = [_argument(0), *_where(ANY_BIT, NEW_NAMESPACES, REFUSE | errno.EPERM)]
    yield from _only_for(CLONE[column], flags)
    yield from _only_for(SPLICE[column], [_argument(2), *_where(EQUAL, descriptor, KILL)])
    for numbers in SEND_AND_RECEIVE:
        # The last argument is the length of an address, ignored without one: it holds the secret.
        guarded = [_argument(0), Instruction(EQUAL, 0, 2, descriptor), _argument(5)]
        steps = [*guarded, *_unless(EQUAL, secret, KILL), _return()]
        yield from _only_for(numbers[column], steps)
    yield from (_argument(0), *_where(EQUAL, descriptor, REFUSE | errno.EPERM), _return())


def _argument(index: int) -> Instruction:
    return Instruction(LOAD, 0, 0, FIRST_ARGUMENT + 8 * index)


def _return(action: int = ALLOW) -> Instruction:
    return Instruction(RETURN, 0, 0, action)


def _where(code: int, operand: int, action: int) -> list[Instruction]:
    return [Instruction(code, 0, 1, operand), _return(action)]


def _unless(code: int, operand: int, action: int) -> list[Instruction]:
    return [Instruction(code, 1, 0, operand), _return(action)]


def _only_for(call: int, steps: list[Instruction]) -> list[Instruction]:
    """Instructions for one system call; afterwards its number is loaded again."""
    return [Instruction(EQUAL, 0, len(steps), call), *steps, Instruction(LOAD, 0, 0, NUMBER)]
