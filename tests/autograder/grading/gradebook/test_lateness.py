"""Late days: what a day costs, and extensions by the recipe of the instructors' guide."""

import re
import textwrap
from datetime import datetime, timedelta

import pytest

from autograder.grading import command
from autograder.grading.gradebook.lateness import LateDays
from autograder.grading.gradebook.submission_status import in_words
from tests.autograder.grading.changing import give, judge_by_text, opened
from tests.autograder.grading.course_folder import NOON
from tests.autograder.grading.small import UNIT, Small
from tests.needs import SANDBOX, needs
from tests.notebooks.filling import ROOT, solved

TEXT = "u00-view"
RULE = """
c.AssignLatePenalties.plugin_class = "autograder.grading.gradebook.lateness.LateDays"
c.LateDays.share_per_day = 0.1
"""
HANDED_IN = datetime.strptime(NOON, "%Y-%m-%d %H:%M:%S.%f %Z")
RECIPE = re.compile(r"```python\n((?:(?!```).)*grant_extension.*?)```", re.DOTALL)


@pytest.fixture
def course(small, monkeypatch):
    """All right answers are seven points; who hands in at noon is a day and six hours late."""
    judge_by_text(monkeypatch)
    config = small.root / "nbgrader_config.py"
    config.write_text(config.read_text() + RULE)
    with opened(small) as book:
        due = HANDED_IN - timedelta(days=1, hours=6)
        book.update_or_create_assignment(UNIT, duedate=due)
    for student in ("ada", "bob"):
        small.hand_in(student, solved(UNIT) | {TEXT: "A view."})
    return small


def penalty(course: Small, student: str) -> float:
    with opened(course) as book:
        return book.find_submission(UNIT, student).late_submission_penalty


def follow_the_guide(course: Small, monkeypatch, student: str, days: int) -> None:
    """Run the lines that give a student days, for another student."""
    (recipe,) = RECIPE.findall((ROOT / "docs" / "instructors.md").read_text(encoding="utf-8"))
    lines = textwrap.dedent(recipe).replace("01_transformer_flops", UNIT).replace("ada", student)
    monkeypatch.chdir(course.root)
    exec(compile(lines.replace("days=2", f"days={days}"), "docs/instructors.md", "exec"), {})


@needs(SANDBOX)
def test_a_penalty_follows_points_and_extensions(course, monkeypatch, capsys):
    follow_the_guide(course, monkeypatch, "bob", 2)
    assert command.main([UNIT, "--jobs", "1"], course.root) == 0
    told = capsys.readouterr().out
    assert "2 texts wait for a reader: u00-view 2.\n" in told
    assert "Due date: ada 1 d 6 h late, 1.2 points less; bob extension of 2 d.\n" in told
    assert penalty(course, "bob") == 0, "the days came before the grades"
    give(course, "ada", TEXT, 1.0)
    assert course.grade() == []
    assert penalty(course, "ada") == pytest.approx(0.2 * 7), "the text counts too"
    follow_the_guide(course, monkeypatch, "ada", 1)
    assert [each.student for each in course.grade()] == ["ada"]
    assert penalty(course, "ada") == pytest.approx(0.1 * 7)
    assert course.grade() == [], "the same days as before"


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
