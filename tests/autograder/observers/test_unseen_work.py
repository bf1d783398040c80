"""Work beside an instrument is noted; a right answer's reading of a number or two is not."""

import os
import subprocess
import sys
import threading
from functools import partial
from os import posix_spawn

import numpy
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from autograder.observers.unseen_work import noted


class Instrument(TorchDispatchMode):
    """Counts nothing."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


NOTHING = [sys.executable, "-c", ""]
X = torch.linspace(0, 1, 100).double()
WORK = {
    "numpy": lambda: X.numpy() * 2,
    "an array": lambda: numpy.asarray(X),
    "another exporter": lambda: numpy.from_dlpack(X),
    "a list": lambda: sum(X.tolist()),
    "one by one": lambda: sum(x.item() for x in X),
    "as floats": lambda: sum(float(X[n]) for n in range(len(X))),
    "a thread": lambda: threading.Thread(target=int).start(),
    "a process": lambda: os.waitpid(posix_spawn(sys.executable, NOTHING, {}), 0),
    "a program": partial(subprocess.run, NOTHING, check=True),
}
FINE = {
    "a loss": lambda: torch.ones(()).item(),
    "many losses": lambda: [float((X * n).sum()) for n in range(100)],
    "a few numbers": lambda: [X[n].item() for n in range(4)],
    "a list of losses": X[:60].tolist,
    "whole numbers": lambda: torch.arange(100).tolist(),
    "printed": lambda: repr(X),
    "operations": (X @ X).sqrt,
}


def found_in(work, *, is_watched=True):
    found = []
    with noted(found):
        if is_watched:
            with Instrument():
                work()
        else:
            work()
    return found


@pytest.mark.parametrize("name", WORK)
def test_work_elsewhere_is_noted(name):
    assert len(found_in(WORK[name])) == 1


@pytest.mark.parametrize("name", FINE)
def test_other_work_is_not(name):
    assert found_in(FINE[name]) == []


@pytest.mark.parametrize("name", WORK)
def test_where_no_instrument_looks_nothing_is_noted(name):
    assert found_in(WORK[name], is_watched=False) == []


def test_afterwards_threads_start_as_before():
    before = threading._start_new_thread
    found_in(WORK["a thread"])
    assert threading._start_new_thread is before


def test_an_observation_within_another_notes_for_itself():
    outer = []
    with noted(outer):
        assert len(found_in(WORK["a thread"])) == 1
        assert outer == []


def test_numpy_writes_nothing_into_the_memory_of_a_tensor():
    def write():
        array = X[:4].numpy()
        with pytest.raises(ValueError, match="WRITEABLE"):
            array.flags.writeable = True
        array[:] = 1

    with pytest.raises(ValueError, match="read-only"):
        found_in(write)
