"""A run that is killed or stopped at any moment loses nothing, and leaves no process behind.

A few moments are always tried; `ALL_KILLS=50` in the environment tries 50.
"""

import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress

import psutil
import pytest

from tests.autograder.grading.small import SEED
from tests.notebooks.filling import ROOT

NUM_KILLS = int(os.environ.get("ALL_KILLS", "3"))
KILLS_A_ROUND = min(5, NUM_KILLS)
# enough that each moment comes before the last one is graded: three a kill, four in progress
NUM_STUDENTS = 3 * KILLS_A_ROUND + 5
PATIENCE_SECONDS = 300


def with_children(process):
    parent = psutil.Process(process.pid)
    for _ in range(100):  # one that ends while they are listed stops the list
        with suppress(psutil.NoSuchProcess):
            return [parent, *parent.children(recursive=True)]
    raise RuntimeError("children of the run end all the time")


def started(process, name):
    """What a program of this name, started by the run, consists of by now."""
    for each in with_children(process):
        with suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
            if each.name() == name:
                return with_children(each)
    return []


def assert_all_gone(processes):
    _, left = psutil.wait_procs(processes, timeout=20)
    assert [each for each in left if each.status() != psutil.STATUS_ZOMBIE] == []


def num_written(small):
    return len([*(small.root / "autograded").glob("*/*/*.ipynb")])


def wait_for(small, process, number):
    """Wait until a number of graded notebooks are written, or the run has ended."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        if num_written(small) >= number:
            return
        time.sleep(0.002)


def kill_at_a_moment(small, chance):
    """Kill a run while processes start, or around the writing of one of the next grades."""
    written = num_written(small)
    process = small.command("--jobs", "2")
    if chance.random() < 0.2:
        time.sleep(chance.uniform(1, 15))
    else:
        wait_for(small, process, written + chance.randint(1, 3))
        time.sleep(chance.uniform(0, 0.06))
    processes = with_children(process) if process.poll() is None else []
    process.kill()
    process.communicate()
    assert_all_gone(processes)
    return bool(processes)


@pytest.fixture(scope="module")
def undisturbed(generated, tmp_path_factory):
    """The class, graded by a run that nothing stops."""
    calm = generated.copy(tmp_path_factory.mktemp("calm") / "course")
    calm.hand_in_a_class(NUM_STUDENTS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COURSE_GRADING_SEED", SEED)
        assert len(calm.grade()) == NUM_STUDENTS
    return calm


def test_killed_at_random_moments_and_resumed(small, undisturbed, tmp_path):
    small.hand_in_a_class(NUM_STUDENTS)
    chance, num_kills, number = random.Random(1), 0, 0
    while num_kills < NUM_KILLS:
        course, number = small.copy(tmp_path / f"round{number}"), number + 1
        for _ in range(min(KILLS_A_ROUND, NUM_KILLS - num_kills)):
            num_kills += kill_at_a_moment(course, chance)
        process = course.command("--jobs", "2")
        said, complained = process.communicate(timeout=PATIENCE_SECONDS)
        assert (process.returncode, complained) == (0, ""), said
        assert course.contents() == undisturbed.contents()
        assert course.files() == undisturbed.files()
        print(f"{num_kills} kills in {number} rounds")


def test_ctrl_c_while_the_grader_loads():
    process = subprocess.Popen(
        [sys.executable, "-m", "autograder.grading", "no such unit"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout.readline() == "Loading the grader.\n"
    os.killpg(process.pid, signal.SIGINT)
    assert process.communicate(timeout=30)[1] == ""
    assert process.returncode == -signal.SIGINT


@pytest.mark.parametrize("seconds", [0, 1, 3])
def test_ctrl_c_while_processes_start(small, seconds):
    small.hand_in_a_class(NUM_STUDENTS)
    process = small.command("--jobs", "2")
    while not psutil.Process(process.pid).children():
        time.sleep(0.01)
    time.sleep(seconds)
    processes = with_children(process)
    os.killpg(process.pid, signal.SIGINT)
    complained = process.communicate(timeout=30)[1]
    assert complained == "Stopped; run it again and it goes on where it was.\n"
    assert process.returncode == 130
    assert_all_gone(processes)


# As bubblewrap is while it starts: its child waits for it, and only SIGKILL ends that one.
STARTING_FOR_EVER = """#!/bin/sh
sh -c 'trap "" INT TERM HUP; while true; do sleep 0.1; done' &
wait
"""


def test_ctrl_c_while_bubblewrap_starts(small, tmp_path):
    small.hand_in_a_class(1)
    program = tmp_path / "bwrap"
    program.write_text(STARTING_FOR_EVER, encoding="utf-8")
    program.chmod(0o755)
    process = small.command(PATH=f"{tmp_path}:{os.environ['PATH']}")
    while len(bubblewrap := started(process, "bwrap")) < 2:
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)
    process.communicate(timeout=30)
    assert_all_gone(bubblewrap)


def test_ctrl_c_stops_at_once_and_is_gone_on_with(small, undisturbed):
    small.hand_in_a_class(NUM_STUDENTS)
    process = small.command("--jobs", "2")
    wait_for(small, process, 3)
    processes = with_children(process)
    os.killpg(process.pid, signal.SIGINT)
    complained = process.communicate(timeout=30)[1]
    assert process.returncode == 130
    assert complained == "Stopped; run it again and it goes on where it was.\n"
    assert_all_gone(processes)
    assert not list(small.root.rglob("*.writing"))
    done = small.grade()
    assert 0 < len(done) < NUM_STUDENTS
    assert small.contents() == undisturbed.contents()
    assert small.files() == undisturbed.files()
