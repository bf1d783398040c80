"""Every release runs from a clean kernel, top to bottom, without an error, and earns nothing."""

import nbformat
import pytest
from nbclient import NotebookClient

from tests.notebooks.filling import UNITS, released


@pytest.fixture(scope="module", params=UNITS)
def ran(request, tmp_path_factory):
    notebook = released(request.param)
    folder = tmp_path_factory.mktemp(request.param)
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
        assert "Not written yet." in cell.outputs[0].data["text/plain"]
        assert cell.outputs[-1].data["text/plain"] == "0.0"


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
    assert "## Recap" in source
    assert "computed_and_measured(" in source
    tags = {tag for cell in released(unit).cells for tag in cell.metadata.get("tags", [])}
    assert "nbval-check-output" in tags
