"""A notebook of another version of the course is found, and repaired with its answers."""

import shutil

import nbformat
import pytest

from autograder.student import launch
from autograder.student.outdated import outdated_units
from autograder.student.work_folder import WorkFolder
from tests.notebooks.filling import ROOT, filled, solved

UNIT = "00_start_here"


@pytest.fixture
def course(tmp_path):
    """A course's folder with one unit, solved in `work/`."""
    shutil.copytree(ROOT / "notebooks" / UNIT, tmp_path / "notebooks" / UNIT)
    (tmp_path / "work" / UNIT).mkdir(parents=True)
    nbformat.write(filled(UNIT, solved(UNIT)), mine(tmp_path))
    return tmp_path


def mine(course):
    return course / "work" / UNIT / f"{UNIT}.ipynb"


def make_old(course):
    """Let the setup cell import from where this version has nothing."""
    text = mine(course).read_text(encoding="utf-8")
    assert "from autograder import" in text
    mine(course).write_text(text.replace("from autograder import", "from course_utils.old import"))


def found(course):
    return outdated_units(course / "notebooks", course / "work")


def test_a_notebook_of_this_version_is_not_outdated(course):
    assert found(course) == []


def test_old_imports_are_found_said_and_repaired(course, capsys):
    make_old(course)
    assert found(course) == [UNIT]
    launch.student_page(course, "")
    said = capsys.readouterr().out
    assert f"{UNIT} was made for another version of the course" in said
    assert "`make fresh UNIT=00`" in said
    kept = WorkFolder(course).fresh("00")
    assert "course_utils.old" in kept.read_text(encoding="utf-8")
    assert found(course) == []
    cells = nbformat.read(mine(course), as_version=4).cells
    assert [cell.source for cell in cells] == [
        cell.source for cell in filled(UNIT, solved(UNIT)).cells
    ]


@pytest.mark.parametrize("text", ["", "[]", '{"cells": [1]}', '{"cells": []}'])
def test_what_cannot_be_read_is_not_outdated(course, text):
    mine(course).write_text(text)
    assert found(course) == []
