"""When processes die, on this machine or on a real cluster, the work of the others goes on."""

import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from autograder import catalogue
from autograder.grading.errors import GradingError, SandboxGoneError
from autograder.grading.run import bounded_process
from autograder.grading.run.pool import Pool, processes, stream
from autograder.grading.run.submission import Submission, ungraded
from tests.autograder.grading.small import UNIT
from tests.notebooks.filling import ROOT, answer_banks_of, expected_points

DASK = str(Path(sys.executable).with_name("dask"))


def submissions(small, num_students):
    """As a run would make them."""
    small.hand_in_a_class(num_students)
    release = (small.root / "notebooks" / UNIT / f"{UNIT}.ipynb").read_text()
    for n in range(num_students):
        path = small.root / "submitted" / f"s{n:03}" / UNIT / f"{UNIT}.ipynb"
        yield Submission(
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


@contextmanager
def two_processes(small):
    with processes(2, False, small.root / "grading" / "measured", [], (1, 2)) as pool:
        yield pool


def test_a_process_that_dies_costs_its_submission_alone(small):
    """The process of one submission is killed, and later the sandbox that all share."""
    graded = []
    with two_processes(small) as pool:
        for _, each in stream(pool, submissions(small, 10)):
            graded.append(each)
            if len(graded) == 1:
                bounded_process.end_all()
            if len(graded) == 6:
                below("sandbox.fork_server")[0].kill()
    died = [each for each in graded if each.result.needs_human]
    assert 1 <= len(died) <= 2
    why = "It was not graded: the process that judged it ended (SIGKILL)."
    assert {(each.result.needs_human, each.is_final) for each in died} == {((why,), False)}
    students = {each.result.student for each in died}
    wanted = {f"s{n:03}": points_of(n) for n in range(10)} | dict.fromkeys(students, 0)
    assert points(graded) == wanted


def test_a_submission_that_ends_the_sandbox_costs_nobody_else(small, monkeypatch):
    """Each time it takes those along that are under way beside it, so it is tried again alone."""
    begun = []

    def grade(given):
        begun.append(given.student)
        if given.student == "s001" or begun.count("s001") == 1 == begun.count(given.student):
            raise SandboxGoneError
        return ungraded(given, "read")

    monkeypatch.setattr("autograder.grading.run.pool.grade", grade)
    with ThreadPoolExecutor(1) as executor:
        found = [each for _, each in stream(Pool(executor, 1), submissions(small, 4))]
    told = {each.result.student: each.result.needs_human for each in found}
    died = ("The process that graded it died, twice.",)
    assert told == {"s000": ("read",), "s001": died, "s002": ("read",), "s003": ("read",)}
    assert begun == ["s000", "s001", "s002", "s003", "s001", "s002", "s003"]


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
    place = ("--scheduler-file", str(file), "--host", "127.0.0.1", "--port", "0")
    start(DASK, "scheduler", "--no-dashboard", *place)
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
    monkeypatch.setattr("autograder.grading.run.pool.WORKER_SECONDS", 1)
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
