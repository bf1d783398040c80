"""A plan that leaves the course: Python with nothing but its own library runs it."""

import subprocess
import sys
import tomllib

import pytest

from autograder.commands import CommandError
from autograder.planning.export import export
from course_utils.planner import MISSION, Report

STATE = '''\
from course_utils.configs import precision


def state_bytes(num_params, recipe):
    """Twice of what it should be, to see that it is this one that is asked."""
    each = 16 * num_params if precision(recipe) else 0
    return {"weights": each, "gradients": each}
'''
USE = """
import sys
from dataclasses import replace
from my_planner import MISSION, OWN, report
print(sorted(OWN))
print(report(replace(MISSION, num_tokens=MISSION.num_tokens)))
print([name for name in sys.modules if "course_utils" in name or "autograder" in name])
"""


@pytest.fixture
def work(tmp_path):
    (tmp_path / "planner").mkdir()
    (tmp_path / "planner" / "state_bytes.py").write_text(STATE, encoding="utf-8")
    return tmp_path


def run_alone(exported, source=USE):
    """What a Python without any installed package prints in the package's folder."""
    start = f"import sys; sys.path.insert(0, {str(exported.folder / 'src')!r})\n"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", start + source],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_package_needs_nothing_and_uses_the_functions_of_its_owner(work):
    exported = export(work)
    own, *report, modules = run_alone(exported).splitlines()
    assert own == "['state_bytes']"
    assert modules == "[]"
    courses = str(Report.of(MISSION, {})).splitlines()
    *report, note = report
    *courses, note_without_own = courses
    assert note == note_without_own.replace(" `state_bytes`,", "")
    differ = {a for a, b in zip(report, courses, strict=True) if a != b}
    assert {line.partition("  ")[0] for line in differ} == {
        "state on each device",
        "with one sequence",
        "with layers recomputed",
        "first stage of a pipeline",
    }


def test_the_package_can_be_installed_and_says_whose_it_is(work):
    exported = export(work)
    project = tomllib.loads((exported.folder / "pyproject.toml").read_text())["project"]
    assert (project["name"], project["dependencies"]) == ("my-planner", [])
    assert "owner of this package: `state_bytes`." in (exported.folder / "README.md").read_text()
    assert (exported.folder / "LICENSE").read_text().startswith("MIT License")


def test_what_a_function_imports_becomes_a_dependency(work):
    (work / "planner" / "state_bytes.py").write_text("import numpy.linalg\n" + STATE)
    project = tomllib.loads((export(work).folder / "pyproject.toml").read_text())["project"]
    assert project["dependencies"] == ["numpy"]


@pytest.mark.parametrize("module", ["course_utils.instruments", "autograder"])
def test_a_function_that_needs_more_of_the_course_stays_there(work, module):
    (work / "planner" / "state_bytes.py").write_text(f"import {module}\n" + STATE)
    exported = export(work)
    assert exported.left_out == {"state_bytes": f"it reads `{module}`, which stays in the course"}
    assert f"`state_bytes` is the course's: it reads `{module}`" in "\n".join(exported.summary())
    assert run_alone(exported).startswith("[]\n")


def test_a_package_that_is_there_is_never_overwritten(work):
    (work / "my_planner").mkdir()
    (work / "my_planner" / "mine.txt").write_text("mine")
    with pytest.raises(CommandError, match="is there already: rename it or delete it first"):
        export(work)
    assert [each.name for each in (work / "my_planner").iterdir()] == ["mine.txt"]


def test_a_plan_without_functions_of_ones_own_is_the_courses(tmp_path):
    exported = export(tmp_path)
    assert exported.own == []
    assert run_alone(exported).startswith("[]\nLlama-3-8B on 8 × H100-SXM")


def test_before_the_first_start_there_is_nothing_to_export(tmp_path):
    with pytest.raises(CommandError, match="yet: `make lab` makes it"):
        export(tmp_path / "work")
    assert list(tmp_path.iterdir()) == []
