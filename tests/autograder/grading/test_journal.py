"""The journal knows what is graded and what is in the gradebook, even after a half line."""

import threading

import pytest

from autograder.checking.verdict import Verdict
from autograder.grading import course_version
from autograder.grading.errors import GradingError
from autograder.grading.journal import Journal, grade_key, lock, path_of, results_of
from autograder.grading.result import SubmissionResult

UNIT = "00_start_here"


def result(student: str, points: float = 1.0) -> SubmissionResult:
    verdict = Verdict(exercise="u00-x", points=points, max_points=2.0, sentence="ähm\u2028\nso")
    return SubmissionResult(
        unit=UNIT, student=student, verdicts=(verdict,), answers={"a": "def f(): ..."}
    )


@pytest.fixture
def path(tmp_path):
    return path_of(tmp_path, UNIT)


def test_the_last_result_of_each_student_is_read_again(path, tmp_path):
    journal = Journal(path)
    for each in (result("b"), result("a", 0.0), result("a", 2.0)):
        journal.record_result(each)
    assert results_of(tmp_path, UNIT) == [result("a", 2.0), result("b")]


def test_stored_is_what_is_written_after_its_result(path):
    key, other = grade_key(b"one"), grade_key(b"other")
    journal = Journal(path)
    journal.record_result(result("a"))
    assert not Journal(path).is_stored("a", key)
    journal.record_stored("a", key)
    again = Journal(path)
    assert again.is_stored("a", key)
    assert not again.is_stored("a", other)
    assert not again.is_stored("b", key)
    again.record_result(result("a"))
    assert not Journal(path).is_stored("a", key)


def test_every_half_of_the_last_line_is_skipped(path):
    key = grade_key(b"one")
    journal = Journal(path)
    journal.record_result(result("a"))
    journal.record_stored("a", key)
    whole = path.read_bytes()
    journal.record_result(result("a", 2.0))
    line = path.read_bytes()[len(whole) :]
    for length in range(len(line) - 1):
        path.write_bytes(whole + line[:length])
        halved = Journal(path)
        assert halved.is_stored("a", key)
        assert halved.results == {"a": result("a")}
    halved.record_result(result("b"))
    assert set(Journal(path).results) == {"a", "b"}


@pytest.mark.parametrize("line", ["null", "7", "[]", "{}", '{"result": "{}"}', '{"student": "a"}'])
def test_lines_of_another_form_are_skipped(path, line):
    Journal(path).record_result(result("a"))
    with path.open("a") as file:
        file.write(line + "\n")
    assert Journal(path).results == {"a": result("a")}


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
    first = grade_key(b"ab", b"c")
    path.write_text("right = 4")
    course_version.of_course.cache_clear()
    second = grade_key(b"ab", b"c")
    course_version.of_course.cache_clear()
    assert first.submission == second.submission == keys[0].submission
    assert len({keys[0].course, first.course, second.course}) == 3


def test_two_runs_at_a_time_are_one_too_many(path):
    said = []

    def other():
        try:
            with lock(path):
                said.append("came in")
        except GradingError as error:
            said.append(str(error))

    with lock(path):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert said == [
        f"{UNIT} is being graded by another process: wait until it is done, or stop it."
    ]
    with lock(path):
        pass


def test_nothing_graded_says_what_to_do(tmp_path):
    with pytest.raises(GradingError, match=f"make grade UNIT={UNIT}"):
        results_of(tmp_path, UNIT)
