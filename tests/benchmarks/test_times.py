"""How long does a student wait for JupyterLab? Reported for the goal of 10 s."""

import subprocess
import sys

import pytest

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
from tests.notebooks.filling import UNITS


@pytest.mark.browser
def test_from_the_command_to_a_usable_notebook(browser, tmp_path, timed):
    course_in(tmp_path)
    printed = tmp_path / "printed.txt"
    command = [sys.executable, "-c", START, "lab", str(free_port())]
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
