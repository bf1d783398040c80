"""A call in a process of its own comes back, or is stopped with one clause, and leaves nothing."""

import gc
import os
import re
import signal
import subprocess
import sys
import time
from functools import partial

import psutil
import pytest

from autograder.grading.run.bounded_process import Bounds, StoppedError, call
from tests.notebooks.filling import ROOT

SOME = Bounds(new_bytes=2**29, cpu_seconds=1, clock_seconds=300, result_bytes=10**6)


def stopped(function, bounds=SOME):
    """Why a call was stopped, and whether that is the last word; no child is left."""
    before = psutil.Process().children()
    with pytest.raises(StoppedError) as error:
        call(function, bounds)
    assert psutil.Process().children() == before
    return str(error.value), error.value.is_final


def look_back():
    """A pattern that takes hours."""
    return bytes(bool(re.match("(a*)*b", "a" * 40)))


def test_a_result_comes_from_another_process_that_knows_what_its_parent_knows():
    known = [1]

    def told():
        known.append(2)
        return f"{os.getpid()} {known}".encode()

    process, said = call(told, SOME).decode().split(maxsplit=1)
    assert (int(process) != os.getpid(), said) == (True, "[1, 2]")
    assert known == [1]
    assert call(lambda: bytes(10**6), SOME) == bytes(10**6)


def test_what_its_parent_has_thrown_away_is_left_alone():
    """What ends it may wait for a lock that nobody opens in the new process."""

    class Statement:
        def __init__(self):
            self.itself, self.made_in = self, os.getpid()

        def __del__(self):
            if os.getpid() != self.made_in:
                os._exit(1)

    gc.disable()
    Statement()
    try:
        assert call(lambda: bytes(gc.collect() >= 0), SOME) == bytes(1)
    finally:
        gc.enable()
        gc.collect()


def test_processor_time_is_bounded():
    assert stopped(look_back) == ("it takes more than 1 seconds of processor time", True)


def test_memory_is_bounded():
    more = "it takes more memory than one submission may", True
    assert stopped(lambda: bytes(2**30)) == more
    assert stopped(lambda: bytes(10**6 + 1)) == more
    assert call(lambda: bytes(len(bytes(2**28)) // 2**28), SOME) == b"\0"


def test_the_clock_is_bounded():
    short = Bounds(clock_seconds=0.3)
    assert stopped(partial(time.sleep, 60), short) == ("it takes more than 0.3 seconds", True)


@pytest.mark.parametrize(
    ("function", "how"),
    [
        (lambda: os.kill(os.getpid(), signal.SIGTERM), "SIGTERM"),
        (lambda: os.kill(os.getpid(), signal.SIGKILL), "SIGKILL"),
        (lambda: os._exit(7), "exit code 7"),
        (lambda: 1 // 0, "exit code 4"),
    ],
)
def test_its_end_is_told_and_not_the_last_word(function, how):
    assert stopped(function) == (f"the process that judged it ended ({how})", False)


def test_it_ends_with_its_parent():
    code = "from autograder.grading.run.bounded_process import *; import time\n"
    code += "call(lambda: print(os.getpid(), flush=True) or time.sleep(600), Bounds())"
    parent = subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    child = psutil.Process(int(parent.stdout.readline()))
    parent.kill()
    parent.communicate()
    psutil.wait_procs([child], timeout=20)
    assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE
