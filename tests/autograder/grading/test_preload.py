"""What a unit's first cell imports is there when the course's answers are gone."""

import subprocess
import sys

import pytest

from tests.notebooks.filling import ROOT, UNITS, released

ALL = """
import sys
from pathlib import Path
from autograder.grading.sandbox import student_process
student_process.warm_up()
for path in sys.argv[1:]:
    exec(compile(Path(path).read_text(encoding="utf-8"), path, "exec"), {"__name__": "__main__"})
"""


@pytest.fixture
def first_cells(tmp_path):
    """The sources of the first cells with code, as files."""
    paths = []
    for unit in UNITS:
        (cell,) = (cell for cell in released(unit).cells if cell.id == f"u{unit[:2]}-setup")
        paths.append(tmp_path / f"{unit}.py")
        paths[-1].write_text(cell.source, encoding="utf-8")
    return paths


def test_each_first_cell_runs_without_the_answers(first_cells):
    command = [sys.executable, "-c", ALL, *map(str, first_cells)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
