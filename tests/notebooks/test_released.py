"""What every release holds; that each runs without an error is seen in JupyterLab.

`tests/browser` runs all of them from top to bottom, and looks for errors and for what each check
says. Here the first one runs without JupyterLab and in a folder that is no work folder.
"""

import nbformat
import pytest
from nbclient import NotebookClient

from autograder import catalogue
from tests.notebooks.filling import UNITS, released


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    notebook = released(UNITS[0])
    folder = tmp_path_factory.mktemp(UNITS[0])
    resources = {"metadata": {"path": str(folder)}}
    NotebookClient(notebook, timeout=120, resources=resources).execute()
    return notebook, folder


def outputs(notebook):
    return [out for cell in notebook.cells if cell.cell_type == "code" for out in cell.outputs]


def test_no_error_and_nothing_on_stderr(ran):
    notebook, _ = ran
    assert [out for out in outputs(notebook) if out.output_type == "error"] == []
    assert [out.text for out in outputs(notebook) if out.get("name") == "stderr"] == []


def test_every_check_says_not_written_yet_and_gives_zero(ran):
    notebook, _ = ran
    graded = [
        cell
        for cell in notebook.cells
        if cell.metadata.get("nbgrader", {}).get("grade") and cell.cell_type == "code"
    ]
    assert graded
    for cell in graded:
        (shown,) = (each.data for each in cell.outputs)
        assert shown["text/plain"] == "0.0"
        assert "Not written yet." in shown["text/html"]


def test_nothing_is_written_outside_a_work_folder(ran):
    _, folder = ran
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("unit", UNITS)
def test_release_is_valid_without_outputs_pairing_or_editor_noise(unit):
    notebook = released(unit)
    nbformat.validate(notebook)
    assert set(notebook.metadata) == {"kernelspec", "language_info"}
    assert all(cell.get("outputs", []) == [] for cell in notebook.cells)
    assert all(cell.get("execution_count") is None for cell in notebook.cells)


@pytest.mark.parametrize("unit", UNITS)
def test_every_unit_has_a_tagged_count_an_explorer_or_figure_and_a_recap(unit):
    source = "\n".join(cell.source for cell in released(unit).cells)
    assert "## Recap" in source or "## What you know now" in source
    assert "computed_and_measured(" in source or "explorer(" in source
    tags = {tag for cell in released(unit).cells for tag in cell.metadata.get("tags", [])}
    assert "nbval-check-output" in tags


@pytest.mark.parametrize("unit", UNITS)
def test_every_exercise_has_a_card_and_code_that_only_draws_is_folded(unit):
    cells = released(unit).cells
    cards = [cell.source for cell in cells if "</span><span>difficulty" in cell.source]
    (about,) = (each for each in catalogue.units() if each.folder == unit)
    assert len(cards) == len(about.exercises)
    assert all(card.startswith("<div style=") and card.endswith("\n\n</div>") for card in cards)
    folded = [cell for cell in cells if cell.metadata.get("jupyter", {}).get("source_hidden")]
    assert folded and all(cell.source.startswith("# ") for cell in folded)
    assert not [cell.id for cell in folded if cell.metadata.get("nbgrader", {}).get("solution")]
