"""Which system calls may a student process make? A filter in the kernel says it, for good.

Refused are the calls that look into other processes, open new namespaces or hold memory that no
limit counts. The descriptor on which the student process talks to the referee answers only to who
names a secret in an argument that the kernel ignores there: code that finds the descriptor can
neither read a request nor forge a reply, nor make a copy of it.

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
LOAD, EQUAL, ANY_BIT, LEAVE = 0x20, 0x15, 0x45, 0x06
ALLOW, KILL, REFUSE = 0x7FFF0000, 0x80000000, 0x00050000
NUMBER, ARCHITECTURE, FIRST_ARGUMENT = 0, 4, 16
NEW_NAMESPACES = 0x7E020000
OTHER_NUMBERS = 0x40000000  # those of x32

# Audit number of the machine, and which column of the table is its.
MACHINES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
TALKING = ((44, 206), (45, 207))  # sendto, recvfrom
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
    "sendmsg": (46, 211),  # could hand the descriptor on
    "sendmmsg": (307, 269),
}


class Instruction(NamedTuple):
    """One step of the filter: what to do, how far to jump if so and if not, and a number."""

    code: int
    if_so: int
    if_not: int
    number: int


def are_known() -> bool:
    """Whether the table above holds for this machine."""
    return platform.system() == "Linux" and platform.machine() in MACHINES


def refuse(talk: int, secret: int) -> bool:
    """Install the filter for this thread and all that it starts.

    Args:
        talk: The descriptor on which the student process talks.
        secret: What its calls name; at most 31 bits.

    Returns:
        Whether this machine's calls are known and the kernel took the filter.
    """
    if not are_known():
        return False
    steps = list(_program(*MACHINES[platform.machine()], talk, secret))
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    program = struct.pack("HxxxxxxQ", len(steps), ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    return bool(libc.prctl(SET_FILTER, FILTER, program, 0, 0) == 0)


def _program(architecture: int, column: int, talk: int, secret: int) -> Iterator[Instruction]:
    yield Instruction(LOAD, 0, 0, ARCHITECTURE)
    yield from _unless(EQUAL, architecture, KILL)
    yield Instruction(LOAD, 0, 0, NUMBER)
    yield from _where(ANY_BIT, OTHER_NUMBERS, KILL)
    for numbers in REFUSED.values():
        yield from _where(EQUAL, numbers[column], REFUSE | errno.EPERM)
    yield from _where(EQUAL, CLONE3[column], REFUSE | errno.ENOSYS)  # its flags cannot be seen
    flags = [_argument(0), *_where(ANY_BIT, NEW_NAMESPACES, REFUSE | errno.EPERM)]
    yield from _only_for(CLONE[column], flags)
    yield from _only_for(SPLICE[column], [_argument(2), *_where(EQUAL, talk, KILL)])
    for numbers in TALKING:
        known = [_argument(0), Instruction(EQUAL, 0, 2, talk), _argument(5)]
        yield from _only_for(numbers[column], [*known, *_unless(EQUAL, secret, KILL), _leave()])
    yield from (_argument(0), *_where(EQUAL, talk, REFUSE | errno.EPERM), _leave())


def _argument(place: int) -> Instruction:
    return Instruction(LOAD, 0, 0, FIRST_ARGUMENT + 8 * place)


def _leave(how: int = ALLOW) -> Instruction:
    return Instruction(LEAVE, 0, 0, how)


def _where(code: int, number: int, how: int) -> list[Instruction]:
    return [Instruction(code, 0, 1, number), _leave(how)]


def _unless(code: int, number: int, how: int) -> list[Instruction]:
    return [Instruction(code, 1, 0, number), _leave(how)]


def _only_for(call: int, steps: list[Instruction]) -> list[Instruction]:
    """Steps for one call; afterwards its number is loaded again."""
    return [Instruction(EQUAL, 0, len(steps), call), *steps, Instruction(LOAD, 0, 0, NUMBER)]
