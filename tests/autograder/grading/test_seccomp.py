"""The kernel refuses what could look elsewhere or hold memory.

Each call is tried in a child process under the filter. The arguments are such that the kernel alone
would answer otherwise to who may make the call.
"""

import ctypes
import errno
import os
import platform
import signal

import pytest

from autograder.grading.sandbox import seccomp
from tests.needs import SECCOMP, needs

LIBC = ctypes.CDLL(None, use_errno=True)
WELL = 0

pytestmark = needs(SECCOMP)


def called(number: int, *arguments: object) -> int:
    """The error number of a system call, or zero."""
    filled = (*arguments, *[0] * (6 - len(arguments)))
    values = [ctypes.c_long(each) if isinstance(each, int) else each for each in filled]
    return ctypes.get_errno() if LIBC.syscall(ctypes.c_long(number), *values) == -1 else WELL


def in_child(act, *arguments) -> int:
    """What `act` returns in a child under the filter; below zero is the signal that ended it."""
    child = os.fork()
    if child == 0:
        os._exit(act(*arguments) if seccomp.install_filter() else 255)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def number(name: str) -> int:
    return seccomp.number_of(name)


@pytest.mark.parametrize("name", seccomp.REFUSED)
def test_a_call_is_refused(name):
    assert in_child(called, number(name), *[-1] * 6) == errno.EPERM


@pytest.mark.parametrize(
    ("name", "error"),
    [("epoll_create1", errno.EINVAL), ("write", errno.EBADF), ("getpid", WELL)],
)
def test_other_calls_reach_the_kernel(name, error):
    assert in_child(called, number(name), *[-1] * 6) == error


@pytest.mark.parametrize("flag", seccomp.NEW_NAMESPACES)
def test_no_process_begins_in_new_namespaces(flag):
    assert in_child(called, number("clone"), flag | signal.SIGCHLD) == errno.EPERM


def test_who_starts_a_process_with_unseen_flags_is_sent_to_the_older_call():
    assert in_child(called, number("clone3")) == errno.ENOSYS


def forked_exit_code() -> int:
    child = os.fork()
    if child == 0:
        os._exit(7)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_processes_still_start():
    assert in_child(forked_exit_code) == 7


@pytest.mark.skipif(platform.machine() != "x86_64", reason="only x86-64 has numbers of x32")
def test_numbers_of_another_machine_end_the_process():
    assert in_child(called, 0x40000000 | number("write")) == -signal.SIGSYS
