"""How long does a student wait? Reported for the goals: 20 s for unit 00 solved, 10 s for Lab."""

import subprocess
import sys

import pytest

from course_utils.authoring import build, master
from tests.browser.fixtures import (
    LAPTOP,
    PATIENCE_SECONDS,
    PICTURES,
    START,
    course_in,
    free_port,
    started,
    stop,
    student_environ,
)
from tests.browser.lab_page import LabPage
from tests.notebooks.filling import ROOT, UNITS


@pytest.mark.parametrize("unit", UNITS)
def test_solved_unit_from_a_clean_kernel(unit, timed):
    notebook = master.read(ROOT / "solutions" / unit / f"{unit}.py").notebook
    with timed(f"{unit} solved, from a clean kernel"):
        solved = build.execute(notebook)
    assert all(cell.execution_count for cell in solved.cells if cell.cell_type == "code")


@pytest.mark.browser
def test_from_the_command_to_a_usable_notebook(browser, tmp_path, timed):
    course_in(tmp_path)
    printed = tmp_path / "printed.txt"
    command = [sys.executable, "-c", START, str(free_port())]
    environment = student_environ(tmp_path / "home")
    page = browser.new_page(viewport=LAPTOP)
    page.set_default_timeout(PATIENCE_SECONDS * 1000)
    unit = UNITS[0]
    with timed("make lab on an existing environment until the notebook can be used"):
        with printed.open("wb") as output:
            process = subprocess.Popen(
                command, cwd=tmp_path, env=environment, stdin=subprocess.DEVNULL, stdout=output
            )
        address = started(process, printed).geturl()
        notebook = LabPage(page, tmp_path / "work" / unit / f"{unit}.ipynb", PICTURES)
        notebook.open(address)
    page.close()
    assert stop(process) == []
