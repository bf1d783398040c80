"""How much a student reads in one sitting, held to the course's budgets."""

import jupytext
import pytest

from autograder import catalogue
from autograder.authoring import reading_time
from course_utils.planner import COURSE_FUNCTIONS
from tests.notebooks.filling import ROOT

MASTERS = {path.stem: path for path in sorted(ROOT.glob("solutions/*/*.py"))}
IN_FORM = [name for name, path in MASTERS.items() if "opening=true" in path.read_text("utf-8")]
MINUTES = {unit.folder: unit.minutes for unit in catalogue.units()}

GIVE_FUNCTIONS = [
    unit.folder
    for unit in catalogue.units()
    if any(item.function in COURSE_FUNCTIONS for item in unit.exercises)
]


@pytest.mark.parametrize("name", IN_FORM)
def test_a_unit_is_one_sitting(name):
    cells = jupytext.read(MASTERS[name], fmt="py:percent").cells
    assert reading_time.over_budget(reading_time.length(cells), MINUTES[name]) == {}


@pytest.mark.parametrize("name", GIVE_FUNCTIONS)
def test_a_unit_that_gives_the_plan_a_function_begins_and_ends_with_it(name):
    cells = jupytext.read(MASTERS[name], fmt="py:percent").cells
    where = [n / len(cells) for n, cell in enumerate(cells) if cell.source == "plan()"]
    assert where[0] < 0.1 and where[-1] > 0.9
