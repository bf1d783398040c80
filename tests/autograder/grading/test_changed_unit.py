"""A unit that changes after submissions were graded: nothing is lost, and the gradebook follows."""

import sqlite3
from contextlib import closing

import nbformat
import pytest
from nbgrader.api import Gradebook

from autograder.authoring.release import release
from autograder.cells import cell_key
from autograder.grading import command
from autograder.grading.errors import GradingError
from autograder.grading.run import Run
from tests.autograder.grading.small import UNIT, InThisProcess, Small, generated, small
from tests.notebooks.filling import ROOT, composite, solved

__all__ = ["generated", "small"]

CELLS = """
select type, b.name, coalesce(g.max_score, ''), coalesce(g.cell_type, s.cell_type, ''),
    coalesce(s.locked, ''), coalesce(s.source, ''), coalesce(s.checksum, '')
from base_cell b left join grade_cells g on g.id = b.id left join source_cell s on s.id = b.id
order by 1, 2
"""
LEFT_OUT = "u00-state-gib"
STUDENTS = ("ada", "grace")


def opened(course: Small) -> Gradebook:
    return Gradebook(f"sqlite:///{course.root / 'gradebook.db'}", "efficient_llm_training")


def cells(course: Small) -> list[tuple]:
    """All that the gradebook knows of the unit's cells."""
    with closing(sqlite3.connect(course.root / "gradebook.db")) as book:
        return book.execute(CELLS).fetchall()


def put(course: Small, instructor: nbformat.NotebookNode) -> None:
    """A form of the unit, as the instructor has it and as students get it."""
    path = course.root / "solutions" / UNIT / f"{UNIT}.ipynb"
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(instructor, path)
    path = course.root / "notebooks" / UNIT / f"{UNIT}.ipynb"
    nbformat.write(release(instructor, ROOT), path)


@pytest.fixture(scope="module")
def whole():
    return nbformat.read(ROOT / "solutions" / UNIT / f"{UNIT}.ipynb", as_version=4)


@pytest.fixture
def shorter(whole):
    """The unit as it was while it had one exercise less."""
    left = [cell for cell in whole.cells if not cell_key(cell).startswith(LEFT_OUT)]
    assert len(left) == len(whole.cells) - 2
    return nbformat.from_dict(whole | {"cells": left})


@pytest.fixture
def course(small, monkeypatch):
    monkeypatch.setenv("COURSE_GRADING_SEED", "a secret of this test")
    monkeypatch.setattr(Run, "_pool", lambda _: InThisProcess())
    small.hand_in("ada", solved(UNIT))
    small.hand_in("grace", solved(UNIT) | composite(UNIT, 0))
    return small


def scores(course: Small, student: str) -> dict[str, float | None]:
    with opened(course) as book:
        notebook = book.find_submission_notebook(UNIT, UNIT, student)
        return {grade.name: grade.score for grade in notebook.grades}


def test_an_unknown_unit_is_learned_as_nbgrader_would(course, whole):
    by_nbgrader = cells(course)
    assert len(by_nbgrader) == 10
    (course.root / "gradebook.db").unlink()
    put(course, whole)
    course.grade()
    assert cells(course) == by_nbgrader


def test_an_exercise_more_keeps_all_grades(course, shorter, whole, capsys):
    (course.root / "gradebook.db").unlink()
    put(course, shorter)
    course.grade()
    with opened(course) as book:
        text = next(
            each
            for each in book.find_submission_notebook(UNIT, UNIT, "ada").grades
            if each.needs_manual_grade
        )
        name, text.manual_score, text.needs_manual_grade = text.name, 0.5, False
        book.db.commit()
    before = {student: scores(course, student) for student in STUDENTS}

    put(course, whole)
    with pytest.raises(GradingError, match=rf"\(new: {LEFT_OUT}\).*--accept-changes"):
        course.grade()
    assert command.main([UNIT, "--jobs", "1"], course.root) == 1
    assert "--accept-changes" in capsys.readouterr().err
    assert command.main([UNIT, "--jobs", "1", "--accept-changes"], course.root) == 0

    for student in STUDENTS:
        after = scores(course, student)
        new = after.pop(f"{LEFT_OUT}-test")
        assert new == (1.0 if student == "ada" else 0.0)
        assert after == before[student], "what was given before stays"
    assert before["ada"][name] == 0.5
    assert course.grade() == [], "nothing is left to do"


def test_an_exercise_less_leaves_its_grades_in_a_copy(course, shorter, whole):
    put(course, whole)
    course.grade()
    put(course, shorter)
    course.grade(accepts_changes=True)
    assert f"{LEFT_OUT}-test" not in scores(course, "ada")
    assert not any(name.startswith(LEFT_OUT) for _, name, *_ in cells(course))
    before, after = sorted((course.root / "gradebook_backups").iterdir())[-2:]
    for copy, has_them in ((before, True), (after, False)):
        course.root.joinpath("gradebook.db").write_bytes(copy.read_bytes())
        assert (f"{LEFT_OUT}-test" in scores(course, "ada")) is has_them


def test_two_builds_are_not_mixed(course, shorter, whole):
    put(course, whole)
    release_of_whole = course.root / "notebooks" / UNIT / f"{UNIT}.ipynb"
    text = release_of_whole.read_text()
    put(course, shorter)
    release_of_whole.write_text(text)
    (course.root / "gradebook.db").unlink()
    with pytest.raises(GradingError, match=r"two builds \(new: u00-state-gib\): run `make build"):
        course.grade()
    put(course, shorter)
    course.grade()
    assert f"{LEFT_OUT}-test" not in scores(course, "ada")


def test_a_release_that_nbgrader_deleted_is_named(course, capsys):
    (course.root / "notebooks" / UNIT / f"{UNIT}.ipynb").unlink()
    assert command.main(["0"], course.root) == 1
    assert "`make build UNIT=00` makes it again" in capsys.readouterr().err


def test_hidden_tests_are_needed_to_learn_a_unit(course):
    (course.root / "gradebook.db").unlink()
    with pytest.raises(GradingError, match=r"00_start_here.ipynb is not there: the gradebook"):
        course.grade()
