"""A grade and what it was made from are one: a run that is killed leaves the old or the new one."""

import os
import signal
import threading
from contextlib import suppress

import pytest
from sqlalchemy.orm import Session

from autograder.grading import course_version
from autograder.grading.errors import GradingError
from autograder.grading.gradebook import gradebook_writer
from autograder.grading.gradebook.course_table import results_of
from autograder.grading.gradebook.grade_key import grade_key
from autograder.grading.gradebook.gradebook_writer import GradebookWriter
from autograder.grading.gradebook.unit_lock import lock
from tests.autograder.grading.changing import beside, give, hand_in, judge_by_text
from tests.autograder.grading.small import UNIT, Small
from tests.notebooks.filling import solved

TEXT = "u00-view"
FORMULA = "u00-state-gib"
MOMENTS = {
    "after the points": (GradebookWriter, "_save_grades", "after"),
    "after what people are asked": (gradebook_writer, "_ask_people", "after"),
    "after the penalty": (GradebookWriter, "_save_penalty", "after"),
    "after what it was made from": (gradebook_writer.course_table, "record", "after"),
    "before the first file": (gradebook_writer, "write_whole", "before"),
    "after the first file": (gradebook_writer, "write_whole", "after"),
    "before the commit": (Session, "commit", "before"),
    "after the commit": (Session, "commit", "after"),
}


@pytest.fixture
def course(small, monkeypatch):
    """Two graded students; a person has read one of them, who hands in anew."""
    judge_by_text(monkeypatch)
    for student in ("ada", "bob"):
        hand_in(small, student, solved(UNIT) | {TEXT: "A view.", FORMULA: "def state_gib(): ..."})
    assert len(small.grade()) == 2
    for cell in (TEXT, f"{FORMULA}-test"):
        give(small, "ada", cell, 0.5)
    hand_in(small, "ada", solved(UNIT) | {TEXT: "Another view."})
    return small


def killed(course: Small, where, name: str, when: str) -> None:
    """Grade in a process of its own, which is killed at a moment after the first copy."""
    child = os.fork()
    if child == 0:
        with suppress(BaseException), pytest.MonkeyPatch.context() as patch:
            function, back_up = getattr(where, name), GradebookWriter.back_up

            def wrapper(*arguments, **options):
                if when == "before":
                    os.kill(os.getpid(), signal.SIGKILL)
                function(*arguments, **options)
                os.kill(os.getpid(), signal.SIGKILL)

            def beginning(writer):
                back_up(writer)
                patch.setattr(where, name, wrapper)

            patch.setattr(GradebookWriter, "back_up", beginning)
            course.grade()
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


def state(course: Small) -> tuple:
    """All that counts; of the results their points, since their times differ."""
    points = {
        each.student: [verdict.points for verdict in each.verdicts]
        for each in results_of(course.root, UNIT)
    }
    return course.contents(), [row for row in beside(course) if row[0] != "result"], points


def test_killed_at_any_moment_it_is_the_old_grade_or_the_new_one(course, tmp_path):
    done = course.copy(tmp_path / "done")
    old = state(course)
    assert [each.student for each in done.grade()] == ["ada"]
    new, files = state(done), done.files()
    assert old != new
    for moment, how in MOMENTS.items():
        copy = course.copy(tmp_path / moment)
        killed(copy, *how)
        is_new = moment == "after the commit"
        assert state(copy) == (new if is_new else old), moment
        assert [each.student for each in copy.grade()] == ([] if is_new else ["ada"]), moment
        assert (state(copy), copy.files()) == (new, files), moment


def test_a_key_changes_with_every_part_and_with_the_course(tmp_path, monkeypatch):
    keys = [
        grade_key(b"ab", b"c"),
        grade_key(b"a", b"bc"),
        grade_key(b"abc"),
        grade_key(b"ab", b"c", b""),
    ]
    assert len(set(keys)) == 4
    assert grade_key(b"ab", b"c") == keys[0]
    path = tmp_path / course_version.PACKAGES[0] / "check.py"
    path.parent.mkdir()
    path.write_text("right = 3")
    monkeypatch.setattr(course_version, "SOURCE", tmp_path)
    course_version.of_course.cache_clear()
    other = grade_key(b"ab", b"c")
    course_version.of_course.cache_clear()
    assert other.submission == keys[0].submission
    assert other.course != keys[0].course


def test_two_runs_at_a_time_are_one_too_many(tmp_path):
    said = []

    def other():
        try:
            with lock(tmp_path, UNIT):
                said.append("came in")
        except GradingError as error:
            said.append(str(error))

    with lock(tmp_path, UNIT):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert said == [
        f"{UNIT} is being graded by another process: wait until it is done, or stop it."
    ]
    with lock(tmp_path, UNIT):
        pass
