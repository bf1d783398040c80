"""A unit without exercises is generated, handed in and graded like others: there is nothing in it.

Who hands it in has 0 of 0 points, and no check is asked.
"""

import pytest

from autograder import catalogue
from autograder.commands import CommandError
from autograder.grading.report.class_report import report_on
from autograder.grading.run.run import Options, Run, configuration
from autograder.student.practice import practise
from tests.autograder.grading.small import InThisProcess
from tests.needs import SANDBOX, require
from tests.notebooks.filling import ROOT

WITHOUT = [unit.folder for unit in catalogue.units() if not unit.exercises]


@pytest.mark.parametrize("unit", WITHOUT)
def test_stock_nbgrader_grades_it_with_no_points(course, unit):
    course.run("generate_assignment", unit)
    course.hand_in_from_work_folder("by_file", unit)
    course.autograde(unit, "by_file")
    assert course.scores("by_file", unit) == {}
    with course.gradebook() as book:
        submission = book.find_submission(unit, "by_file")
        assert (submission.score, submission.max_score) == (0, 0)


@pytest.mark.parametrize("unit", WITHOUT)
def test_it_is_graded_without_a_question(course, unit, monkeypatch):
    require(SANDBOX)
    monkeypatch.setenv("COURSE_GRADING_SEED", "a secret of this test")
    monkeypatch.setattr(Run, "_pool", lambda _: InThisProcess())
    if not (course.folder / "notebooks" / unit).exists():
        course.run("generate_assignment", unit)
    course.hand_in("another", unit, {})
    run = Run(course.folder, unit, Options(jobs=1), configuration(course.folder))
    results = {each.student: each for each in run.grade(lambda _: None)}
    assert results["another"].verdicts == ()
    assert report_on(course.folder, unit).exercises.empty


@pytest.mark.parametrize("unit", WITHOUT)
def test_practice_says_that_it_has_none(tmp_path, unit):
    with pytest.raises(CommandError, match=f"{unit} has no exercise with a check"):
        practise(ROOT, tmp_path, unit)
