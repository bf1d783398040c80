"""nbval compares the cells tagged for it, and only those. (It runs every solved notebook itself:
`testpaths` names the folder `solutions`.)"""

import subprocess
import sys

import nbformat
import pytest

from tests.notebooks.filling import ROOT, UNITS

UNIT = UNITS[0]  # the quickest


def run_with_changed_outputs(tmp_path, is_changed):
    """Run nbval on a solved notebook after falsifying some stored outputs."""
    notebook = nbformat.read(ROOT / "solutions" / UNIT / f"{UNIT}.ipynb", as_version=4)
    changed = [cell for cell in notebook.cells if cell.get("outputs") and is_changed(cell)]
    for cell in changed:
        cell.outputs = [nbformat.v4.new_output("stream", text="falsified")]
    assert changed
    path = tmp_path / f"{UNIT}.ipynb"
    nbformat.write(notebook, path)
    options = ["--nbval-lax", "--nbval-current-env", "-q", "-c", str(ROOT / "pyproject.toml")]
    command = [sys.executable, "-m", "pytest", *options, "-p", "no:cacheprovider", str(path)]
    return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)


def is_tagged(cell):
    return "nbval-check-output" in cell.metadata.get("tags", [])


def test_falsified_count_is_found(tmp_path):
    done = run_with_changed_outputs(tmp_path, is_tagged)
    assert done.returncode == 1
    assert "failed" in done.stdout


def test_other_outputs_are_not_compared(tmp_path):
    done = run_with_changed_outputs(tmp_path, lambda cell: not is_tagged(cell))
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("unit", UNITS)
def test_no_tagged_cell_shows_a_time(unit):
    notebook = nbformat.read(ROOT / "solutions" / unit / f"{unit}.ipynb", as_version=4)
    for cell in filter(is_tagged, notebook.cells):
        assert "seconds" not in str(cell.get("outputs", "")), cell.id
