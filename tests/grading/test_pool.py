"""Processes that die, on this machine and on a real cluster: the others' work goes on."""

import sys

import psutil

from course_utils.grading.pool import Local, stream
from course_utils.grading.task import Task
from tests.grading.small import UNIT, generated, small

__all__ = ["generated", "small"]

SCHEDULER = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--no-dashboard"]
WORKER = [sys.executable, "-m", "distributed.cli.dask_worker", "--no-dashboard"]


def tasks(small, num_students):
    """As a run would make them."""
    small.hand_in_a_class(num_students)
    release = (small.root / "notebooks" / UNIT / f"{UNIT}.ipynb").read_text()
    for n in range(num_students):
        path = small.root / "submitted" / f"s{n:03}" / UNIT / f"{UNIT}.ipynb"
        yield Task(
            unit=UNIT, student=f"s{n:03}", raw=path.read_bytes(), release=release, seeds=(1, 2)
        )


def below(pool_process_name):
    """Processes that these tests have started, by a word of their command."""
    every = psutil.Process().children(recursive=True)
    return [each for each in every if pool_process_name in " ".join(each.cmdline())]


def points(graded):
    return {each.result.student: sum(v.points for v in each.result.verdicts) for each in graded}


def test_a_dead_process_and_a_dead_sandbox_are_replaced(small):
    """First one of two processes is killed, then the sandbox that they share."""
    graded = []
    with Local(2, is_unsafe=False) as pool:
        for each in stream(pool, tasks(small, 10)):
            graded.append(each)
            if len(graded) == 1:
                below("forkserver")[-1].kill()
            if len(graded) == 6:
                below("sandbox.nursery")[0].kill()
    assert not any(each.result.needs_human for each in graded)
    assert sorted(points(graded)) == [f"s{n:03}" for n in range(10)]
    assert points(graded)["s002"] > points(graded)["s003"] > points(graded)["s000"] == 0
