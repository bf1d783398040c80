"""When processes die, on this machine or on a real cluster, the work of the others goes on."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from autograder import catalogue
from autograder.grading.errors import GradingError, WorkerDiedError
from autograder.grading.pool import LocalPool, stream
from autograder.grading.task import Task
from tests.autograder.grading.small import UNIT, generated, small
from tests.notebooks.filling import ROOT, answer_banks_of, expected_points

__all__ = ["generated", "small"]

DASK = str(Path(sys.executable).with_name("dask"))


def tasks(small, num_students):
    """As a run would make them."""
    small.hand_in_a_class(num_students)
    release = (small.root / "notebooks" / UNIT / f"{UNIT}.ipynb").read_text()
    for n in range(num_students):
        path = small.root / "submitted" / f"s{n:03}" / UNIT / f"{UNIT}.ipynb"
        yield Task(
            unit=UNIT, student=f"s{n:03}", raw=path.read_bytes(), release=release, seeds=(1, 2)
        )


def below(word):
    """Processes that these tests have started, by a word of their command."""
    return [each for each in psutil.Process().children(recursive=True) if word in command_of(each)]


def command_of(process):
    try:
        return " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return ""  # it has ended meanwhile


def points(graded):
    return {each.result.student: sum(v.points for v in each.result.verdicts) for each in graded}


def points_of(n):
    """Those that the n-th of `hand_in_a_class` is worth: blank, right and composites in turn."""
    full = {exercise: catalogue.exercise(exercise).points for exercise in answer_banks_of(UNIT)}
    return n and sum((full | (expected_points(UNIT, n % 4) if n % 2 else {})).values())


def test_a_dead_process_and_a_dead_sandbox_are_replaced(small):
    """First one of two processes is killed, then the sandbox that they share."""
    graded = []
    with LocalPool(2, is_unsafe=False) as pool:
        for each in stream(pool, tasks(small, 10)):
            graded.append(each)
            if len(graded) == 1:
                pool._workers[-1].kill()
            if len(graded) == 6:
                below("sandbox.fork_server")[0].kill()
    assert not any(each.result.needs_human for each in graded)
    assert points(graded) == {f"s{n:03}": points_of(n) for n in range(10)}


def test_nobody_waits_for_the_dead(small):
    """All processes are killed while they work and megabytes wait for them."""
    with LocalPool(2, is_unsafe=False) as pool:
        pool.submit(next(tasks(small, 1)).to_bytes()).result()
        waiting = [pool.call(time.sleep, 600), pool.call(time.sleep, 600)]
        waiting += [pool.call(len, bytes(1_000_000)) for _ in range(3)]
        for worker in pool._workers:
            worker.kill()
        assert [type(each.exception(60)) for each in waiting] == [WorkerDiedError] * 5
        pool.restart()
        assert pool.call(len, bytes(1_000_000)).result(60) == 1_000_000


def test_a_submission_that_ends_its_process_costs_nobody_else(small, monkeypatch):
    """Its process dies with it twice; the submissions that waited beside it are graded."""
    given = list(tasks(small, 4))
    with LocalPool(1, is_unsafe=False) as pool:
        submit = pool.submit

        def submitted(message):
            poison = Task.from_bytes(message).student == "s001"
            return pool.call(os.abort) if poison else submit(message)

        submit(given[0].to_bytes()).result()
        monkeypatch.setattr(pool, "submit", submitted)
        graded = list(stream(pool, given))
    told = {each.result.student: each.result.needs_human for each in graded}
    died = ("The process that graded it died, twice.",)
    assert told == {"s000": (), "s001": died, "s002": (), "s003": ()}
    assert points(graded)["s001"] == 0 < points(graded)["s002"]


def test_processes_that_cannot_start_stop_the_run(small, monkeypatch):
    monkeypatch.setattr("autograder.grading.pool._initialize", os._exit)
    given = list(tasks(small, 1))
    with (
        LocalPool(1, is_unsafe=False) as pool,
        pytest.raises(GradingError, match="as soon as they"),
    ):
        list(stream(pool, given))


@pytest.fixture
def cluster(tmp_path):
    """The address of a scheduler, and a function that starts a worker of it."""
    started = []

    def start(*command):
        process = subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        started.append(process)
        return process

    file = tmp_path / "scheduler.json"
    start(
        DASK,
        "scheduler",
        "--no-dashboard",
        "--scheduler-file",
        str(file),
        "--host",
        "127.0.0.1",
        "--port",
        "0",
    )
    deadline = time.monotonic() + 120
    while not file.exists():
        assert time.monotonic() < deadline
        time.sleep(0.1)
    address = json.loads(file.read_text())["address"]
    yield (
        address,
        lambda: start(DASK, "worker", address, "--no-dashboard", "--nthreads", "1", "--no-nanny"),
    )
    for process in started:
        process.kill()
        process.wait()


def test_a_cluster_gives_the_same_gradebook_and_survives_its_workers(cluster, small, tmp_path):
    address, start_worker = cluster
    small.hand_in_a_class(6)
    local = small.copy(tmp_path / "local")
    workers, done = [start_worker(), start_worker()], []

    def kill_one(result):
        done.append(result)
        if len(done) == 2:
            workers[0].kill()

    small.grade(kill_one, scheduler=address)
    assert len(done) == 6
    local.grade(jobs=2)
    assert small.contents() == local.contents()
    assert small.files() == local.files()


def test_a_cluster_without_workers_and_one_that_goes(cluster, small, monkeypatch):
    address, start_worker = cluster
    small.hand_in_a_class(6)
    monkeypatch.setattr("autograder.grading.pool.WORKER_SECONDS", 1)
    with pytest.raises(GradingError, match=r"^The scheduler at tcp.* has no workers: start some"):
        small.grade(scheduler=address)
    monkeypatch.undo()
    monkeypatch.setenv("COURSE_GRADING_SEED", "a secret of this test")
    start_worker()
    with pytest.raises(GradingError, match=r"^The Dask cluster is gone: start it, and run"):
        small.grade(lambda _: below("scheduler")[0].kill(), scheduler=address)


def test_nobody_at_an_address(small):
    small.hand_in_a_class(1)
    with pytest.raises(GradingError, match=r"^No Dask scheduler answers at tcp://127.0.0.1:1 "):
        small.grade(scheduler="tcp://127.0.0.1:1")
    with pytest.raises(GradingError, match=r"^No Dask scheduler answers at nonsense:x "):
        small.grade(scheduler="nonsense:x")
