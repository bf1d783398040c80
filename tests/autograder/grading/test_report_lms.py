"""Grades for Canvas and Moodle, through nbgrader's own export command."""

import csv

import pytest

from autograder import catalogue
from autograder.checking.verdict import Verdict
from autograder.grading.gradebook import course_table
from autograder.grading.report.lms_csv import harmless
from autograder.grading.result import SubmissionResult
from tests.notebooks.filling import UNITS

UNIT = UNITS[0]
EXERCISES = {item.id: item for unit in catalogue.units()[:1] for item in unit.exercises}
MANUAL = next(item for item in EXERCISES.values() if item.manual)
MODULE = "autograder.grading.report.lms_csv"


@pytest.fixture(scope="module")
def graded(course):
    """Five students: all right, half right and late, with a formula for a name, and nothing."""
    course.run("generate_assignment", UNIT)
    students = {
        "right": {"first_name": "Ada", "last_name": "Lovelace", "lms_user_id": "17"},
        "half": {},
        "formula": {"last_name": '=HYPERLINK("http://evil.example")', "lms_user_id": "@19"},
        "@sum": {},
        "absent": {},
    }
    with course.gradebook() as book:
        for student, known in students.items():
            book.add_student(student, **known)
        for student in [*students][:-1]:
            grade(book, student, all_right=student != "half")
        for each in (result("half", "How <wide> & deep?"), result("formula", "No?")):
            course_table.record(book, each, None, {})
        book.db.commit()
    return course


def grade(book, student, *, all_right):
    submission = book.add_submission(UNIT, student)
    by_exercise = {
        each.name.removesuffix("-test"): each for n in submission.notebooks for each in n.grades
    }
    assert set(by_exercise) == set(EXERCISES)
    for name, each in by_exercise.items():
        each.auto_score = None if EXERCISES[name].manual else each.max_score if all_right else 0.5
        # In "half" a person's points are there, and wait for somebody who confirms them.
        each.needs_manual_grade = EXERCISES[name].manual and student in ("formula", "half")
    if not all_right:
        by_exercise[MANUAL.id].manual_score = 0.25
        for comment in submission.notebooks[0].comments:
            if comment.name == MANUAL.id:
                comment.manual_comment = "=Well said, -1 < 0."
        submission.notebooks[0].late_submission_penalty = 0.75
    book.db.commit()


def result(student, hint):
    verdicts = tuple(
        Verdict(exercise=name, points=0.5, max_points=2.0, sentence="A case is wrong.", hint=hint)
        for name, item in EXERCISES.items()
        if not item.manual
    )
    return SubmissionResult(unit=UNIT, student=student, verdicts=verdicts)


def exported(course, exporter, *more):
    told = course.run("export", f"--exporter={MODULE}.{exporter}", "--to=grades.csv", *more)
    with (course.folder / "grades.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file)), told


def test_canvas_has_every_student_and_the_points_that_count(graded):
    (head, possible, *rows), told = exported(graded, "CanvasExporter")
    title = f"{catalogue.units()[0].title} ({UNIT})"
    assert head == ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", title]
    full = sum(item.points for item in EXERCISES.values() if not item.extra)
    assert possible == ["    Points Possible", "", "", "", "", str(full)]
    by_login = {row[3]: row for row in rows}
    automatic = full - MANUAL.points
    assert by_login["right"] == ["Lovelace, Ada", "17", "", "right", "", str(automatic)]
    half = 0.5 * (len(EXERCISES) - 1) + 0.25 - 0.75
    assert by_login["half"] == ["half", "", "", "half", "", str(half)]
    assert by_login["absent"][-1] == ""
    assert by_login["formula"][:2] == ['\'=HYPERLINK("http://evil.example")', "'@19"]
    assert "'@sum" in by_login
    assert f"formula: a person has to read {UNIT}" in told
    assert "right: a person" not in told


def test_moodle_has_grade_and_what_is_to_be_said(graded):
    (head, *rows), _ = exported(graded, "MoodleExporter", f"--assignment={UNIT}")
    assert head == ["ID number", "Grade", "Feedback comments"]
    feedback = {student: text for student, _, text in rows}
    assert set(feedback) == {"right", "half", "formula", "'@sum"}
    lines = feedback["half"].split("<br>")
    assert len(lines) == len(EXERCISES) + 1
    first = next(item for item in EXERCISES.values() if not item.manual)
    wanted = (
        f"{first.title}: 0.5 of {first.points:g}. A case is wrong. How &lt;wide&gt; &amp; deep?"
    )
    assert wanted in lines
    assert f"{MANUAL.title.replace(chr(39), '&#x27;')}: 0.25 of 1. =Well said, -1 &lt; 0." in lines
    assert lines[-1] == "Handed in late: 0.75 points less."
    assert "not read yet." in feedback["formula"]
    assert "wrong" not in feedback["right"]


@pytest.mark.parametrize(
    ("students", "wanted", "ids"),
    [
        (["formula"], "Identifier", {"'@19"}),
        (["formula", "half"], "ID number", {"formula", "half"}),
        (["formula", "right"], "ID number", {"formula", "right"}),  # a mere number is Canvas's
    ],
)
def test_moodle_takes_the_identifier_of_its_worksheet_where_all_have_one(
    graded, students, wanted, ids
):
    chosen = [f"--student={name}" for name in students]
    (head, *rows), _ = exported(graded, "MoodleExporter", f"--assignment={UNIT}", *chosen)
    assert head[0] == wanted
    assert {row[0] for row in rows} == ids


def test_moodle_asks_which_assignment(graded):
    with graded.gradebook() as book:
        book.add_assignment("another")
    try:
        with pytest.raises(AssertionError, match=f"one assignment a file.*{UNIT}, another"):
            exported(graded, "MoodleExporter")
    finally:
        with graded.gradebook() as book:
            book.remove_assignment("another")


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@x", "\t=1", "\r=1", "\n=1", "＝1"])
def test_text_is_no_formula(text):
    assert harmless(text) == f"'{text}"


def test_numbers_and_other_texts_stay():
    assert [harmless(cell) for cell in (-1.5, "a=b", " Points", "")] == [-1.5, "a=b", " Points", ""]
