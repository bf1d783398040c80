"""nbgrader's own engine and ours give the same grades, comments and verdicts for honest work.

Two units are compared always, and with `ALL_STOCK=1` in the environment all of them; with
`ALL_COMPOSITES=1` every composite and not only the first and the last.
"""

import os
import shutil
from pathlib import Path

import nbformat
import pytest

from autograder.grading.run.run import Options, Run, configuration
from tests.autograder.grading.course_folder import Course
from tests.autograder.grading.end_to_end.test_nbgrader import composites
from tests.autograder.grading.small import Small
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
def test_grades_comments_and_verdicts_are_those_of_stock(stock_course, unit, tmp_path, monkeypatch):
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
    assert not (stock_course.folder / "grading" / f"{unit}.lock").exists()
    assert ours.contents() == Small(stock_course.folder).contents()
    shown = verdicts_shown(ours.root, unit)
    assert shown == verdicts_shown(stock_course.folder, unit)
    assert shown


def verdicts_shown(root, unit):
    """What every student's graded cells of code show."""
    return {
        (path.parts[-3], cell.id): [each.data for each in cell.outputs]
        for path in (root / "autograded").glob(f"*/{unit}/{unit}.ipynb")
        for cell in nbformat.read(path, as_version=4).cells
        if cell.cell_type == "code" and cell.metadata.get("nbgrader", {}).get("grade")
    }
