"""A call that has used up its time is stopped, whatever it catches, and the timers are put back."""

import signal
import time

import pytest

from autograder.checking.time_limit import TIMERS, Stopped, stopped_after


def calculate():
    number = 0
    while True:
        number += 1


def sleep():
    time.sleep(1000)


@pytest.mark.parametrize("never_return", [calculate, sleep])
def test_what_never_returns_is_stopped(never_return):
    with pytest.raises(Stopped), stopped_after(0.1):
        never_return()


def test_what_swallows_the_stop_a_few_times_is_stopped_all_the_same():
    swallowed = []
    with pytest.raises(Stopped), stopped_after(0.1):
        while True:
            try:
                time.sleep(1000)
            except BaseException:
                swallowed.append(1)
                if len(swallowed) == 3:
                    raise


def test_handlers_and_timers_are_as_before_afterwards():
    before = [signal.getsignal(number) for _, number in TIMERS]
    with stopped_after(0.2):
        pass
    assert [signal.getsignal(number) for _, number in TIMERS] == before
    assert [signal.getitimer(timer) for timer, _ in TIMERS] == [(0.0, 0.0)] * 2
