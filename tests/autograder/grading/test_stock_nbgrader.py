"""nbgrader's own engine and ours give the same grades and comments for honest work.

Two units are compared always, and with `ALL_STOCK=1` in the environment all of them; with
`ALL_COMPOSITES=1` every composite and not only the first and the last.
"""

import os
import shutil
from pathlib import Path

import pytest

from autograder.grading.run import Options, Run, configuration
from tests.autograder.grading.conftest import Course
from tests.autograder.grading.small import Small
from tests.autograder.grading.test_nbgrader import composites
from tests.notebooks.filling import UNITS, composite, solved

COMPARED = UNITS if os.environ.get("ALL_STOCK") else UNITS[:2]
BY_PLUGIN = "# Whoever has the grading rooms"


@pytest.fixture(scope="module")
def stock_course(tmp_path_factory):
    course = Course(tmp_path_factory.mktemp("stock"))
    config = course.folder / "course_config.py"
    config.write_text(config.read_text().split(BY_PLUGIN)[0])
    return course


@pytest.mark.parametrize("unit", COMPARED)
def test_grades_and_comments_are_those_of_stock(stock_course, unit, tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_GRADING_SEED", "a secret of this test")
    shutil.rmtree(stock_course.folder / "submitted", ignore_errors=True)
    stock_course.run("generate_assignment", unit)
    stock_course.hand_in("blank", unit, {})
    stock_course.hand_in("solved", unit, solved(unit))
    for k in composites(unit):
        stock_course.hand_in(f"wrong{k}", unit, solved(unit) | composite(unit, k))
    ours = Small(Path(shutil.copytree(stock_course.folder, tmp_path / "course")))
    stock_course.autograde(unit, "wrong*", "[bs]*")
    Run(ours.root, unit, Options(), configuration(ours.root)).grade(lambda _: None)
    assert not list((stock_course.folder / "grading").glob("*"))
    assert ours.contents() == Small(stock_course.folder).contents()
