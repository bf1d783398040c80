"""The table that a student's feedback begins with: points, what is extra or waits, and reasons."""

import re
from dataclasses import replace

import nbformat
import pytest
from nbgrader.preprocessors import GetGrades

from autograder.grading.manual_grading.answers import Answers
from autograder.grading.manual_grading.marks import Change, Mark
from autograder.grading.shown.preprocessors import Overview
from tests.autograder.grading.manual_grading.graded_class import EXERCISE, UNIT

CHECKED = [item for item in UNIT.exercises if not item.manual]
FIRST = CHECKED[0]
CORE = sum(item.points for item in UNIT.exercises if not item.extra)
EXTRA = sum(item.points for item in UNIT.exercises if item.extra)


def give(root, student: str, item, wanted: Mark) -> None:
    answers = Answers(root)
    (seen,) = (e for e in answers.to_read(UNIT, item) if e.graded.student == student)
    answers.marks.change([Change(seen.graded, seen.graded.mark, wanted)])


@pytest.fixture
def shown(root):
    """A function that gives the first cell of a student's feedback, and the page's resources."""

    def of(student: str) -> tuple[str, dict]:
        place = root / "autograded" / student / UNIT.folder / f"{UNIT.folder}.ipynb"
        notebook = nbformat.read(place, as_version=4)
        names = dict.fromkeys(("notebook", "assignment"), UNIT.folder)
        about = {**names, "student": student, "db_url": f"sqlite:///{root / 'gradebook.db'}"}
        resources = {"nbgrader": about, "inlining": {"css": []}}
        for step in (GetGrades, Overview):
            notebook, resources = step().preprocess(notebook, resources)
        return notebook.cells[0].source, resources["nbgrader"]

    return of


def row(table: str, title: str) -> list[str]:
    (line,) = (line for line in table.splitlines() if line.startswith(f"| {title}"))
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def of_exercise(table: str, item) -> list[str]:
    return row(table, f"[{item.title}]")[1:]


def test_core_and_extra_points_are_apart_and_what_waits_is_said(root, shown):
    table, about = shown("ada")
    points = {item.id: item.points * (k % 3) / 2 for k, item in enumerate(CHECKED)}
    of_core, of_extra = (
        sum(points.get(item.id, 0) for item in UNIT.exercises if item.extra == is_extra)
        for is_extra in (False, True)
    )
    assert EXTRA > 0
    waits = "1 answer waits for a person; these are the points so far"
    assert row(table, "**Core exercises**")[1:] == [f"**{of_core:g} of {CORE:g}**", waits]
    assert row(table, "**Extra exercises**")[1:] == [f"**{of_extra:g} of {EXTRA:g}**", ""]
    assert row(table, "**All**")[1:] == [f"**{of_core + of_extra:g} of {CORE:g}**", ""]
    assert (about["score"], about["max_score"]) == (of_core + of_extra, CORE)
    give(root, "ada", EXERCISE, Mark(1.5, "", False))
    table, about = shown("ada")
    assert row(table, "**Core exercises**")[1:] == [f"**{of_core + 1.5:g} of {CORE:g}**", ""]


def test_a_persons_comment_is_the_reason(root, shown):
    give(root, "ada", EXERCISE, Mark(1.5, "Which *peak*?\n\nAs a | b.", False))
    table, _ = shown("ada")
    assert of_exercise(table, EXERCISE) == ["1.5 of 2", "Which *peak*? As a \\| b."]


def test_the_check_still_says_what_is_wrong_where_a_person_gave_points(root, shown):
    assert of_exercise(shown("ada")[0], FIRST)[1] == "Some cases are wrong."
    give(root, "ada", FIRST, Mark(1.0, "Nearly.", False))
    points, why = of_exercise(shown("ada")[0], FIRST)
    assert points == f"1 of {FIRST.points:g}"
    assert why == "Nearly.<br>The check: Some cases are wrong."
    give(root, "ada", FIRST, Mark(FIRST.points, "Right in your units.", False))
    assert of_exercise(shown("ada")[0], FIRST)[1] == "Right in your units."


def test_a_comment_without_points_is_there_too(root, shown):
    give(root, "ada", FIRST, replace(Mark(None, "", False), comment="See unit 03."))
    _, why = of_exercise(shown("ada")[0], FIRST)
    assert why == "See unit 03.<br>The check: Some cases are wrong."
