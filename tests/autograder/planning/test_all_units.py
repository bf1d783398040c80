"""The last unit's report, with none of the earlier units done, and with all of them."""

from dataclasses import replace

import pytest

from autograder import catalogue
from autograder.exercises.model_answers import model_answer
from autograder.files import write_whole
from autograder.planning.folder import FRONT
from autograder.planning.function_source import module_source
from course_utils.configs import machine_of, preset
from course_utils.planner import COURSE_FUNCTIONS, MISSION, Report
from tests.autograder.planning.test_plan import imported

OTHER = replace(
    MISSION,
    name="Llama-3.2-1B on 4 × A100-80",
    model=preset("Llama-3.2-1B"),
    machine=machine_of("A100-80", num_devices=4),
)
EXERCISES = {
    item.function: item.id
    for unit in catalogue.units()
    for item in unit.exercises
    if item.function in COURSE_FUNCTIONS
}
USE = """
from dataclasses import replace
from course_utils.configs import machine_of, preset
from planner import MISSION, report
print(report())
print("---")
print(report(replace(MISSION, name="Llama-3.2-1B on 4 × A100-80", model=preset("Llama-3.2-1B"),
                     machine=machine_of("A100-80", num_devices=4))))
"""


def own_module(function: str) -> str:
    """What a notebook writes into the plan once a model answer has passed its check."""
    return module_source(function, model_answer(EXERCISES[function]).__globals__)


def reports(work) -> list[str]:
    """What the plan of a work folder says, in a Python of its own, of two missions."""
    return [each.strip() for each in imported(work, USE).split("---")]


@pytest.fixture
def work(tmp_path):
    (tmp_path / "planner").mkdir()
    write_whole(tmp_path / "planner" / "__init__.py", FRONT)
    return tmp_path


def test_every_function_of_the_plan_is_asked_for_in_one_exercise():
    assert EXERCISES.keys() == COURSE_FUNCTIONS.keys()


def test_without_any_unit_the_report_is_the_courses(work):
    assert reports(work) == [str(Report.of(mission, {})) for mission in (MISSION, OTHER)]


def test_with_the_functions_of_all_units_the_report_is_the_same(work):
    for function in COURSE_FUNCTIONS:
        write_whole(work / "planner" / f"{function}.py", own_module(function))
    of_course = [str(Report.of(mission, {})) for mission in (MISSION, OTHER)]
    without_note = [text.rpartition("\nFrom the course:")[0] for text in of_course]
    assert reports(work) == without_note
