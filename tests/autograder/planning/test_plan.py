"""The plan of a work folder: what is added, what can be imported, what the card says."""

import os
import subprocess
import sys

import nbformat
import pytest
from nbclient import NotebookClient

from autograder import plan, progress_file
from tests.notebooks.filling import ROOT, solved

STATE, PARAMETERS = (
    solved("03_memory_accounting")[f"u03-{n}"] for n in ("state-bytes", "parameters")
)
IMPORTS = "from course_utils.configs import ModelConfig\nfrom autograder import check, plan\n"
USE = """
import json, planner
print(json.dumps([planner.state_bytes(10, "bf16"), planner.FROM_THE_COURSE]))
"""


@pytest.fixture
def work(tmp_path, monkeypatch):
    folder = tmp_path / "work"
    (folder / "03_memory_accounting").mkdir(parents=True)
    progress_file.create(folder)
    monkeypatch.chdir(folder / "03_memory_accounting")
    monkeypatch.delenv("NBGRADER_EXECUTION", raising=False)
    return folder


def run(folder, *cells):
    """The texts that a notebook in a work folder shows."""
    notebook = nbformat.v4.new_notebook()
    notebook.cells = [nbformat.v4.new_code_cell(cell) for cell in (IMPORTS, *cells)]
    resources = {"metadata": {"path": str(folder / "03_memory_accounting")}}
    NotebookClient(notebook, timeout=120, resources=resources).execute()
    return [each.data["text/plain"] for c in notebook.cells for each in c.outputs if "data" in each]


def row(card, label):
    """What the plan says of a quantity."""
    (said,) = (line for line in card.splitlines() if line.startswith(f"{label}  "))
    return said.removeprefix(label).strip()


REPORT = """
from dataclasses import replace
from planner import MISSION, report
print(report(replace(MISSION, name="Mine", num_tokens=10**9)))
"""


def imported(folder, source=USE):
    """What the plan's package says in a Python of its own."""
    said = subprocess.run(
        [sys.executable, "-c", source],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    return said.stdout


def test_a_function_that_passes_becomes_part_of_the_plan(work):
    *_, card = run(work, STATE, 'check("u03-state-bytes", state_bytes)', "plan()")
    assert row(card, "state on each device") == "?  waits for unit 03"
    assert (work / "planner" / "state_bytes.py").read_text("utf-8").startswith("def state_bytes(")
    assert '"weights": 20' in (said := imported(work))
    assert "training_flops_per_token" in said and '"state_bytes"' not in said.partition("}")[2]


def test_a_report_on_another_mission_names_what_is_not_ones_own(work):
    run(work, STATE, 'check("u03-state-bytes", state_bytes)', "plan()")
    first, *rows, last = imported(work, REPORT).splitlines()
    assert first.startswith("Mine on 8 × H100-SXM: 1 billion tokens in 30 days")
    assert row("\n".join(rows), "state on each device") == "128 of 83 GB ✗ too much"
    assert row("\n".join(rows), "time").startswith("0.212 of 30 days ✓")
    assert last.startswith("From the course: `training_flops_per_token`")
    assert "`state_bytes`" not in last


def test_a_notebook_reports_on_another_mission_with_its_own_functions(work):
    *_, said = run(
        work,
        STATE,
        'check("u03-state-bytes", state_bytes)',
        "from dataclasses import replace\nfrom autograder import report\n"
        "from course_utils.planner import MISSION\n"
        'report(replace(MISSION, name="Mine"))',
    )
    assert said.startswith("Mine on 8 × H100-SXM: 100 billion tokens")
    assert "`state_bytes`" not in said.splitlines()[-1]
    assert "`parameters`" in said.splitlines()[-1]


def test_the_card_fills_up_with_the_functions(work):
    *_, card = run(
        work,
        STATE,
        PARAMETERS,
        'check("u03-state-bytes", state_bytes)',
        'check("u03-parameters", parameters)',
        "plan()",
    )
    assert row(card, "state on each device") == "128 of 83 GB ✗ too much"
    assert row(card, "work") == "?  waits for unit 01"
    (again,) = run(work, "plan()")
    assert again == card, "the next notebook finds the functions in the folder"


def test_what_does_not_pass_is_not_taken(work):
    wrong = "def state_bytes(num_params, recipe):\n    return {}"
    *_, card = run(work, wrong, 'check("u03-state-bytes", state_bytes)', "plan()")
    assert not (work / "planner").exists()
    assert "waits for unit 03" in card


def test_what_only_the_notebook_has_is_named_and_stays_there(work):
    clever = "import io\nhandle = io.StringIO()\n" + STATE.replace(
        "is_mixed =", "handle.write('x')\n    is_mixed ="
    )
    *_, card = run(work, clever, 'check("u03-state-bytes", state_bytes)', "plan()")
    assert "`state_bytes` stays in its notebook: it reads `handle`" in card


def test_a_damaged_module_is_told_and_replaced_by_the_course_s(work):
    run(work, STATE, 'check("u03-state-bytes", state_bytes)', "plan()")
    (work / "planner" / "state_bytes.py").write_text("def state_bytes(:", encoding="utf-8")
    said = imported(work)
    assert "cannot be imported (SyntaxError" in said
    assert '"state_bytes"' in said.splitlines()[-1]


def test_outside_of_a_work_folder_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "waits for unit 01" in str(plan())
    assert "waits for unit 01" in plan()._repr_html_()
    assert list(tmp_path.iterdir()) == []
