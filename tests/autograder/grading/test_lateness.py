"""Late days: given before and after a submission, kept in the gradebook, worked out again."""

from datetime import datetime, timedelta

import pytest

from autograder.grading import beside_grades, command
from autograder.grading.gradebook_writer import GradebookWriter
from autograder.grading.late import main as late
from autograder.grading.lateness import LateDays
from autograder.grading.run import Run, configuration
from autograder.grading.standings import in_words
from tests.autograder.grading.changing import give, opened
from tests.autograder.grading.conftest import NOON
from tests.autograder.grading.small import UNIT, InThisProcess, Small, generated, small
from tests.needs import SANDBOX, needs
from tests.notebooks.filling import solved

__all__ = ["generated", "small"]

TEXT = "u00-view"
RULE = """
c.AssignLatePenalties.plugin_class = "autograder.grading.lateness.LateDays"
c.LateDays.share_per_day = 0.1
"""
HANDED_IN = datetime.strptime(NOON, "%Y-%m-%d %H:%M:%S.%f %Z")


@pytest.fixture
def course(small, monkeypatch):
    """All right answers are seven points; who hands in at noon is a day and six hours late."""
    monkeypatch.setattr(Run, "_pool", lambda _: InThisProcess())
    config = small.root / "nbgrader_config.py"
    config.write_text(config.read_text() + RULE)
    with opened(small) as book:
        due = HANDED_IN - timedelta(days=1, hours=6)
        book.update_or_create_assignment(UNIT, duedate=due)
        for student in ("ada", "bob"):
            book.add_student(student)
    small.hand_in("ada", solved(UNIT) | {TEXT: "A view."})
    return small


def penalty(course: Small, student: str) -> float:
    with opened(course) as book:
        return book.find_submission(UNIT, student).late_submission_penalty


def said(capsys, course: Small, *options: str) -> str:
    capsys.readouterr()
    assert late([UNIT, *options], course.root) == 0
    return capsys.readouterr().out


@needs(SANDBOX)
def test_days_are_given_taken_back_and_worked_out_again(course, capsys):
    assert command.main([UNIT, "--jobs", "1"], course.root) == 0
    told = capsys.readouterr().out
    assert "1 text waits for a reader: u00-view 1.\n" in told
    assert "Due date: ada 1 d 6 h late, 1.2 points less.\n" in told
    give(course, "ada", TEXT, 1.0)
    assert "  ada: 6 h late, 0.7 points less, extension of 1 d; in all units 1 d\n" in said(
        capsys, course, "--student", "ada", "--days", "1"
    )
    assert penalty(course, "ada") == pytest.approx(0.1 * 7), "the text counts too"
    assert "ada: extension of 2 d" in said(capsys, course, "--student", "ada", "--days", "2")
    assert penalty(course, "ada") == 0
    assert "ada: 1 d 6 h late, 1.4 points less" in said(
        capsys, course, "--student", "ada", "--days", "0"
    )
    assert [each.student for each in course.grade()] == []


@needs(SANDBOX)
def test_days_that_come_before_the_submission_wait_for_it(course, capsys):
    course.grade()
    told = said(capsys, course, "--student", "bob", "--days", "2")
    assert "  bob: extension of 2 d, nothing handed in yet; in all units 2 d\n" in told
    with opened(course) as book:
        assert [each.student_id for each in book.assignment_submissions(UNIT)] == ["ada"]
    course.hand_in("bob", solved(UNIT))
    assert [each.student for each in course.grade()] == ["bob"]
    assert penalty(course, "bob") == 0
    with opened(course) as book:
        assert book.find_submission(UNIT, "bob").extension == timedelta(days=2)
        assert beside_grades.promised_days(book, UNIT) == {}
    assert course.grade() == [], "the same days as before"
    store = GradebookWriter(course.root, configuration(course.root), "")
    assert {each.student: each.points for each in store.standings(UNIT)}["bob"] > 0


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["77"], "There is no unit `77`"),
        ([UNIT, "--student", "aba", "--days", "1"], "no student `aba`: is it one of ada?"),
        ([UNIT, "--student", "zz", "--days", "1"], "`nbgrader db student add` makes it known"),
    ],
)
def test_what_cannot_be_is_one_sentence(course, capsys, options, sentence):
    assert late(options, course.root) == 1
    complained = capsys.readouterr().err
    assert sentence in complained
    assert len(complained.splitlines()) == 1


@pytest.mark.parametrize("options", [["--student", "ada"], ["--days", "1"], ["--days", "-1"]])
def test_a_student_and_days_belong_together(course, options):
    with pytest.raises(SystemExit):
        late([UNIT, *options], course.root)


@pytest.mark.parametrize(
    ("seconds", "points"), [(1, 0.5), (86400, 0.5), (86401, 1.0), (30 * 86400, 5.0)]
)
def test_a_day_begun_costs_its_share_and_never_more_than_all(seconds, points):
    assert LateDays().late_submission_penalty("ada", 5.0, seconds) == pytest.approx(points)


@pytest.mark.parametrize(
    ("time", "words"),
    [
        (timedelta(seconds=5), "1 min"),
        (timedelta(hours=3, minutes=20), "3 h 20 min"),
        (timedelta(days=2, minutes=20), "2 d 20 min"),
        (timedelta(days=1, hours=2, minutes=20), "1 d 2 h"),
    ],
)
def test_a_span_of_time_in_words(time, words):
    assert in_words(time) == words
