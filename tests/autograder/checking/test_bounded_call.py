"""Whatever a student's function does, a plain observation comes back and nothing else happens."""

import os
import subprocess
import sys
import time

import pytest

from autograder.checking import bounded_call
from tests.answer_bank import make


def observed(answer, case=None, limit_seconds=5.0):
    observe = lambda function, case: function(*case.values())  # noqa: E731
    return bounded_call.observe_within_limits(observe, answer, case or {"size": 3}, limit_seconds)


def test_value_comes_back_plain():
    assert observed(lambda size: (size, [size]))["value"] == (3, [3])


def test_an_error_is_described_with_the_students_line():
    answer = make("def f(size):\n    ratio = size / 0\n    return ratio\n", "f")
    trouble = observed(answer)
    assert trouble["trouble"] == "raised"
    assert trouble["error"] == "ZeroDivisionError"
    assert trouble["line"] == "ratio = size / 0"


def test_a_message_that_raises_does_not_escape():
    class Rude(Exception):
        def __str__(self):
            raise RuntimeError

    def answer(size):
        raise Rude

    assert observed(answer)["message"] == "(its message cannot be shown)"


@pytest.mark.parametrize("exit_call", [sys.exit, exit])
def test_exiting_python_is_only_a_trouble(exit_call):
    assert observed(lambda size: exit_call())["error"] == "SystemExit"


def test_interrupting_still_works():
    def answer(size):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        observed(answer)


def test_unwritten():
    def answer(size):
        raise NotImplementedError

    assert observed(answer)["trouble"] == "unwritten"


def test_megabytes_of_output_are_counted_and_dropped(capfd):
    def answer(size):
        for _ in range(1000):
            print("x" * 9_999)
        return size

    result = observed(answer)
    assert result == {"value": 3, "printed_characters": 10_000_000}
    assert capfd.readouterr() == ("", "")


NOISY = """
import os, sys, warnings
from autograder.checking import bounded_call

def noisy():
    warnings.warn("deprecated")
    print("python", file=sys.stderr)
    os.write(2, b"from C")
    return 5

observation = bounded_call.observe_within_limits(lambda f, case: f(), noisy, {}, 1.0)
print(observation["value"])
"""


def test_nothing_reaches_stderr_not_even_from_c():
    done = subprocess.run([sys.executable, "-c", NOISY], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("5\n", "")


def test_stderr_works_again_afterwards(capfd):
    observed(lambda size: size)
    os.write(2, b"still here")
    assert capfd.readouterr().err == "still here"


def endless(size):
    while True:
        size += 1


def sleeping(size):
    time.sleep(1000)


@pytest.mark.parametrize("answer", [endless, sleeping])
def test_what_never_returns_is_stopped(answer):
    assert observed(answer, limit_seconds=0.2) == {
        "trouble": "stopped",
        "seconds": 0.2,
        "printed_characters": 0,
    }


def test_a_case_cannot_be_changed_for_the_next_one():
    case = {"shape": [1, 2]}
    observed(lambda shape: shape.clear(), case)
    assert case == {"shape": [1, 2]}


def test_limits_do_not_need_the_main_thread():
    code = (
        "import threading; from autograder.checking import bounded_call\n"
        "observe = lambda f, c: f()\n"
        "call = lambda: bounded_call.observe_within_limits(observe, lambda: 5, {}, 1.0)\n"
        "run = lambda: print(call()['value'])\n"
        "t = threading.Thread(target=run); t.start(); t.join()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "5\n"
