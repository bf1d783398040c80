"""A call that has used up its time is stopped, whatever it catches, and the timers are put back."""

import contextlib
import importlib
import queue
import signal
import sys
import threading
import time

import pytest

from autograder.checking.time_limit import TIMERS, Stopped, call_within


def calculate():
    number = 0
    while True:
        number += 1


def sleep():
    time.sleep(1000)


def swallow():
    while True:
        try:  # noqa: SIM105
            time.sleep(1000)
        except:  # noqa: E722  as students write it
            pass


def swallow_and_count():
    number = 0
    while True:
        try:
            number += 1
        except BaseException:
            continue


def swallow_in_another_function():
    def wait():
        with contextlib.suppress(BaseException):
            threading.Event().wait()

    while True:
        wait()


def swallow_twice():
    while True:
        try:
            while True:
                try:
                    queue.Queue().get()
                except BaseException:
                    continue
        except BaseException:
            continue


ENDLESS = [
    calculate,
    sleep,
    swallow,
    swallow_and_count,
    swallow_in_another_function,
    swallow_twice,
]


@pytest.mark.parametrize("never_return", ENDLESS)
def test_what_never_returns_is_stopped(never_return):
    with pytest.raises(Stopped):
        call_within(0.1, never_return)


def importing(tmp_path, monkeypatch, seconds):
    (tmp_path / "slow_module.py").write_text(
        f"import time\nend = time.process_time() + {seconds}\nwhile time.process_time() < end: pass"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "slow_module", raising=False)
    return lambda: importlib.import_module("slow_module").end


def test_an_import_is_not_stopped_half_way_and_its_time_does_not_count(tmp_path, monkeypatch):
    assert call_within(0.1, importing(tmp_path, monkeypatch, 0.3)) > 0
    assert hasattr(sys.modules["slow_module"], "end")


def test_an_import_without_an_end_is_stopped(tmp_path, monkeypatch):
    with pytest.raises(Stopped):
        call_within(0.05, importing(tmp_path, monkeypatch, 1000))


def test_what_swallows_the_stop_a_few_times_is_stopped_all_the_same():
    swallowed = []

    def give_in():
        while True:
            try:
                time.sleep(1000)
            except BaseException:
                swallowed.append(1)
                if len(swallowed) == 3:
                    raise

    with pytest.raises(Stopped):
        call_within(0.1, give_in)


def assert_as_before(handlers, timers):
    """Another limit, such as that of the test itself, goes on."""
    assert [signal.getsignal(number) for _, number in TIMERS] == handlers
    for (left, repeat), (timer, _) in zip(timers, TIMERS, strict=True):
        now, repeat_now = signal.getitimer(timer)
        assert repeat_now == repeat
        assert (0 < now <= left) if left else now == 0


def test_handlers_and_timers_are_as_before_afterwards():
    handlers = [signal.getsignal(number) for _, number in TIMERS]
    timers = [signal.getitimer(timer) for timer, _ in TIMERS]
    assert call_within(0.2, lambda: 7) == 7
    assert_as_before(handlers, timers)
    with pytest.raises(Stopped):
        call_within(0.1, swallow)
    assert_as_before(handlers, timers)


def test_a_value_that_comes_after_a_stop_comes_too_late():
    def give_up():
        try:
            time.sleep(1000)
        except BaseException:
            return 42

    with pytest.raises(Stopped):
        call_within(0.1, give_up)
    assert call_within(0.1, give_up, takes_late_value=True) == 42


@pytest.mark.parametrize("never_return", [calculate, sleep])
def test_a_limit_within_a_limit_leaves_the_outer_one(never_return):
    def outer():
        assert call_within(5, lambda: 7) == 7
        with pytest.raises(Stopped):
            call_within(0.05, never_return)
        never_return()

    with pytest.raises(Stopped):
        call_within(0.3, outer)
