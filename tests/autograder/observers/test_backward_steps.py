"""Backward passes on ranks: the judge recounts, so that a changed log earns nothing."""

import copy

import pytest

from autograder.checking.lookup import check_of
from autograder.exercises.model_answers import model_answer
from autograder.observers.backward_steps import Ready, calls, most_waits_in_backward
from autograder.observers.tools import length_of
from course_utils.distributed import ClusterRun, Event


def computing_less(log):
    for entry in log:
        if "compute" in entry:
            entry["seconds"] /= 2


def receiving_more(log):
    next(entry for entry in log if "call" in entry)["result"] += 1


def sending_more(log):
    next(entry for entry in log if "call" in entry)["tensor"] += 1


def calling_nobody(log):
    log[:] = [entry for entry in log if "compute" in entry]


@pytest.mark.parametrize("change", [computing_less, receiving_more, sending_more, calling_nobody])
@pytest.mark.parametrize("exercise", ["u09-buckets", "u09-unused"])
def test_a_changed_log_is_not_right(exercise, change):
    check = check_of(exercise)
    case = check.cases(1)[0]
    observed = check.observe(model_answer(exercise), case)
    assert check.judge(case, observed).passed
    changed = copy.deepcopy(observed)
    change(changed["logs"][1])
    assert not check.judge(case, changed).passed


def event(kind, start, end, num_bytes=0):
    return Event(0, kind, "", start, end, num_bytes)


LOG = (
    event("compute", 0, 2),
    event("communication", 3, 4, num_bytes=8),
    event("wait", 2, 4),
    event("compute", 4, 5),
    event("communication", 5, 6, num_bytes=16),
    event("wait", 5, 6),
)


def test_a_call_is_made_when_so_many_seconds_are_computed():
    assert calls(LOG) == [Ready(8, 2), Ready(16, 3)]


def test_only_waits_before_the_last_compute_are_in_backward():
    assert most_waits_in_backward(ClusterRun(results=[None], events=LOG)) == 1


def test_a_missing_gradient_counts_as_zeros():
    assert length_of([None]) == 0
