"""A worker answers and passes errors on; its death is noticed at once, whenever it happens."""

import gc
import os
import struct
from multiprocessing.connection import Connection

import pytest

from autograder.grading.errors import GradingError, WorkerDiedError
from autograder.grading.worker import Worker


@pytest.fixture
def worker():
    process = Worker(gc.collect)
    yield process
    process.kill()


def die_in_the_middle_of_an_answer():
    pipe = next(each for each in gc.get_objects() if isinstance(each, Connection))
    os.write(pipe.fileno(), struct.pack("!i", 1_000_000) + b"the first bytes")
    os._exit(0)


def stop_the_run(why):
    raise GradingError(why)


def test_answers_of_any_size_and_errors(worker):
    assert worker.ask(len, bytes(1_000_000)) == (1_000_000, None)
    assert worker.ask(bytes, 1_000_000) == (bytes(1_000_000), None)
    reply, error = worker.ask(stop_the_run, "no gradebook")
    assert (reply, type(error), str(error)) == (None, GradingError, "no gradebook")
    assert worker.ask(os.getpid)[0] != os.getpid()


@pytest.mark.parametrize("last", [os.abort, die_in_the_middle_of_an_answer])
def test_it_dies_at_work(worker, last):
    with pytest.raises(WorkerDiedError):
        worker.ask(last)
    with pytest.raises(WorkerDiedError):
        worker.ask(os.getpid)


def test_it_dies_before_it_is_asked(worker):
    worker.kill()
    with pytest.raises(WorkerDiedError):
        worker.ask(len, bytes(1_000_000))


def test_it_cannot_begin():
    worker = Worker(os.abort)
    with pytest.raises(WorkerDiedError):
        worker.ask(os.getpid)
