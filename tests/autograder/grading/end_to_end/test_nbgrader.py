"""The real nbgrader commands on a temporary course: from generate to feedback and export.

Composite submissions carry the k-th wrong answer of every exercise. Two of them are graded here
for each unit, and with `ALL_COMPOSITES=1` in the environment all of them; every wrong answer of
every answer bank goes through the same `grade` call in `tests/autograder/exercises`. One unit goes
through the exchange.
"""

import csv
import getpass
import html
import os
import re

import nbformat
import pytest

from autograder import catalogue
from tests.notebooks.filling import (
    ROOT,
    UNITS,
    WITH_EXERCISES,
    answer_banks_of,
    composite,
    expected_points,
    filled,
    num_composites,
    solved,
    wrong_answers,
)
from tests.notebooks.test_demonstrations import is_demonstration
from tests.sampling import some_units

ME = getpass.getuser()
EXCHANGED = UNITS[0]


def unit_of(folder):
    return next(unit for unit in catalogue.units() if unit.folder == folder)


def composites(unit):
    """Numbers of the composites to grade: the first and the last, or all."""
    count = num_composites(unit)
    return range(count) if os.environ.get("ALL_COMPOSITES") else [0, count - 1]


def solvers(unit):
    """Students who handed in everything solved."""
    return (ME, "by_file") if unit == EXCHANGED else ("by_file",)


@pytest.fixture(scope="module", params=[each for each in some_units() if each in WITH_EXERCISES])
def graded(request, course):
    """One unit generated, handed in and graded, with its composites."""
    unit = request.param
    course.run("generate_assignment", unit)
    if unit == EXCHANGED:
        hand_in_through_the_exchange(course, unit)
    course.hand_in("blank", unit, {})
    course.hand_in_from_work_folder("by_file", unit)
    for k in composites(unit):
        course.hand_in(f"wrong{k}", unit, solved(unit) | composite(unit, k))
    course.run("autograde", unit)
    return unit


def hand_in_through_the_exchange(course, unit):
    course.run("release_assignment", unit)
    course.run("fetch_assignment", unit, place=course.student_folder)
    mine = course.student_folder / unit / f"{unit}.ipynb"
    assert mine.exists()
    nbformat.write(filled(unit, solved(unit)), mine)
    course.run("submit", unit, place=course.student_folder)
    course.run("collect", unit)


def test_generated_release_is_the_committed_one(course, graded):
    name = f"{graded}.ipynb"
    generated = (course.folder / "notebooks" / graded / name).read_bytes()
    assert generated == (ROOT / "notebooks" / graded / name).read_bytes()
    assert [path.name for path in (course.folder / "notebooks" / graded).iterdir()] == [name]


def test_solved_earns_full_automatic_marks(course, graded):
    exercises = {item.id: item for item in unit_of(graded).exercises}
    for student in solvers(graded):
        for name, score in course.scores(student, graded).items():
            assert score == (None if exercises[name].manual else exercises[name].points), name


def test_demonstrations_are_not_run(course, graded):
    path = course.folder / "autograded" / "by_file" / graded / f"{graded}.ipynb"
    cells = nbformat.read(path, as_version=4).cells
    assert any(cell.get("outputs") for cell in cells)
    for cell in filter(is_demonstration, cells):
        assert cell.outputs == [], cell.id


def test_no_cell_of_a_solved_notebook_raises_while_graded(course, graded):
    """The course's own answers are not there then, so a given cell must not need them."""
    path = course.folder / "autograded" / "by_file" / graded / f"{graded}.ipynb"
    cells = nbformat.read(path, as_version=4).cells
    outputs = [(cell.id, out) for cell in cells for out in cell.get("outputs", [])]
    assert [each for each in outputs if each[1].output_type == "error"] == []


def test_blank_earns_nothing(course, graded):
    assert set(course.scores("blank", graded).values()) == {0.0}


def test_each_wrong_answer_loses_exactly_its_points(course, graded):
    full = {item.id: item.points for item in unit_of(graded).exercises if not item.manual}
    for k in composites(graded):
        scores = course.scores(f"wrong{k}", graded)
        wanted = full | expected_points(graded, k)
        assert {name: scores[name] for name in full} == wanted, f"composite {k}"


def test_feedback_tells_hints_and_export_has_every_student(course, graded):
    course.run("generate_feedback", graded)
    page = (course.folder / "feedback" / "wrong0" / graded / f"{graded}.html").read_text()
    shown = html.unescape(re.sub("</?code>", "`", page)).replace("\n", " ")
    for name in answer_banks_of(graded):
        assert wrong_answers(name)[0].hint in shown
    if graded == EXCHANGED:
        course.run("release_feedback", graded)
        course.run("fetch_feedback", graded, place=course.student_folder)
        assert list((course.student_folder / graded / "feedback").glob(f"*/{graded}.html"))
    course.run("export")
    with (course.folder / "grades.csv").open(newline="") as file:
        rows = {
            row["student_id"]: row for row in csv.DictReader(file) if row["assignment"] == graded
        }
    automatic = sum(item.points for item in unit_of(graded).exercises if not item.manual)
    assert float(rows["by_file"]["score"]) == automatic
    assert float(rows["blank"]["score"]) == 0
