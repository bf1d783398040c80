"""The kernel refuses what could use the socket to the referee, look elsewhere or hold memory.

Each call is tried in a child process under the filter. The arguments are such that the kernel alone
would answer otherwise to who may make the call.
"""

import ctypes
import errno
import os
import platform
import signal
import socket

import pytest

from autograder.grading.sandbox import channel, seccomp
from tests.needs import SECCOMP, needs

SECRET = 123_456_789
DESCRIPTOR = channel.DESCRIPTOR
HIGH_HALF = 2**32  # the kernel ignores it in a descriptor
LIBC = ctypes.CDLL(None, use_errno=True)
WELL = 0

pytestmark = needs(SECCOMP)


def called(number: int, *arguments: object) -> int:
    """The error number of a system call, or zero."""
    filled = (*arguments, *[0] * (6 - len(arguments)))
    values = [ctypes.c_long(each) if isinstance(each, int) else each for each in filled]
    return ctypes.get_errno() if LIBC.syscall(ctypes.c_long(number), *values) == -1 else WELL


def in_child(act, *arguments) -> tuple[int, bytes]:
    """How a child under the filter ended, and what came to the referee.

    Its exit code is what `act` returns; a number below zero is the signal that killed it.
    """
    referee, theirs = socket.socketpair()
    theirs.setblocking(False)
    child = os.fork()
    if child == 0:
        os.dup2(theirs.fileno(), DESCRIPTOR)
        theirs.close()
        referee.close()
        is_installed = seccomp.install_filter(DESCRIPTOR, SECRET)
        os._exit(act(*arguments) if is_installed else 255)
    theirs.close()
    _, status = os.waitpid(child, 0)
    referee.setblocking(False)
    try:
        received = referee.recv(100)
    except BlockingIOError:
        received = b""
    referee.close()
    return os.waitstatus_to_exitcode(status), received


def number(name: str) -> int:
    return seccomp.number_of(name)


@pytest.mark.parametrize("name", seccomp.REFUSED)
def test_a_call_is_refused(name):
    assert in_child(called, number(name), *[-1] * 6) == (errno.EPERM, b"")


@pytest.mark.parametrize(
    ("name", "error"),
    [("epoll_create1", errno.EINVAL), ("write", errno.EBADF), ("getpid", WELL)],
)
def test_other_calls_reach_the_kernel(name, error):
    assert in_child(called, number(name), *[-1] * 6) == (error, b"")


FIRST = (
    "close",
    "dup",
    "dup2",
    "dup3",
    "fcntl",
    "fstat",
    "getsockopt",
    "ioctl",
    "pread64",
    "preadv",
    "preadv2",
    "pwrite64",
    "pwritev",
    "pwritev2",
    "read",
    "readv",
    "recvmmsg",
    "recvmsg",
    "sendfile",
    "setsockopt",
    "shutdown",
    "splice",
    "tee",
    "vmsplice",
    "write",
    "writev",
)


@pytest.mark.parametrize("name", FIRST)
@pytest.mark.parametrize("descriptor", [DESCRIPTOR, DESCRIPTOR + HIGH_HALF])
def test_no_call_takes_the_socket(name, descriptor):
    if number(name) < 0:
        pytest.skip("processors of other kinds lack some calls")
    assert in_child(called, number(name), descriptor, 7, 1) == (errno.EPERM, b"")


def test_a_call_of_a_later_kernel_does_not_take_it_either():
    assert in_child(called, seccomp.NUM_CALLS - 1, DESCRIPTOR) == (errno.EPERM, b"")


def moved(name: str) -> int:
    """Move bytes from a pipe, or from a file, into the socket."""
    reading, writing = os.pipe()
    os.write(writing, b"forged")
    file = os.open(__file__, os.O_RDONLY)
    arguments = {
        "splice": (reading, 0, DESCRIPTOR, 0, 6),
        "tee": (reading, DESCRIPTOR, 6),
        "copy_file_range": (file, 0, DESCRIPTOR + HIGH_HALF, 0, 6),
    }
    return called(number(name), *arguments[name])


def test_spliced_bytes_end_the_process():
    assert in_child(moved, "splice") == (-signal.SIGSYS, b"")


@pytest.mark.parametrize("name", ["tee", "copy_file_range"])
def test_bytes_are_moved_to_no_socket(name):
    assert in_child(moved, name) == (errno.EINVAL, b"")


def read_from_the_socket_to_a_file() -> int:
    writing = os.open("/dev/null", os.O_WRONLY)
    return called(number("sendfile"), writing, DESCRIPTOR, 0, 6)


def test_no_file_gets_what_comes():
    assert in_child(read_from_the_socket_to_a_file) == (errno.EINVAL, b"")


def sent(secret: int, descriptor: int = DESCRIPTOR) -> int:
    """Send five bytes with a secret."""
    return called(number("sendto"), descriptor, ctypes.c_char_p(b"reply"), 5, 0, 0, secret)


def test_who_knows_the_secret_sends():
    assert in_child(sent, SECRET) == (WELL, b"reply")


@pytest.mark.parametrize("secret", [0, SECRET + 1, SECRET + 2**32])
@pytest.mark.parametrize("descriptor", [DESCRIPTOR, DESCRIPTOR + HIGH_HALF])
def test_who_does_not_know_it_ends(secret, descriptor):
    assert in_child(sent, secret, descriptor) == (-signal.SIGSYS, b"")


def received_without_a_secret() -> int:
    return called(number("recvfrom"), DESCRIPTOR, ctypes.create_string_buffer(9), 9, 64)


def test_who_does_not_know_it_receives_nothing():
    assert in_child(received_without_a_secret) == (-signal.SIGSYS, b"")


@pytest.mark.parametrize("flag", seccomp.NEW_NAMESPACES)
def test_no_process_begins_in_new_namespaces(flag):
    assert in_child(called, number("clone"), flag | signal.SIGCHLD) == (errno.EPERM, b"")


def test_who_starts_a_process_with_unseen_flags_is_sent_to_the_older_call():
    assert in_child(called, number("clone3")) == (errno.ENOSYS, b"")


def test_no_further_filter_by_the_older_call():
    assert in_child(called, number("prctl"), seccomp.SET_SECCOMP, 2) == (errno.EPERM, b"")


def forked_exit_code() -> int:
    child = os.fork()
    if child == 0:
        os._exit(7)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_processes_still_start():
    assert in_child(forked_exit_code) == (7, b"")


@pytest.mark.skipif(platform.machine() != "x86_64", reason="only x86-64 has numbers of x32")
def test_numbers_of_another_machine_end_the_process():
    assert in_child(called, 0x40000000 | number("write"), DESCRIPTOR) == (-signal.SIGSYS, b"")
