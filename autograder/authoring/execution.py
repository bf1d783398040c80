"""Run an instructor notebook, and keep its outputs while nothing that it runs has changed."""

import html
import re
import tempfile
import time
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbconvert.preprocessors import CoalesceStreamsPreprocessor
from nbformat import NotebookNode
from traitlets.config import Config

from autograder.authoring.errors import BuildError
from autograder.cells import cell_key, nbgrader_metadata

MAX_NOTEBOOK_BYTES = 2**20
CELL_SECONDS = 300
SECONDS_BETWEEN_SIGNS = 10
PASSED = "✓"  # of a verdict that gives all points
WIDGET = "application/vnd.jupyter.widget-view+json"


def execute(notebook: NotebookNode) -> NotebookNode:
    """Run a notebook from a clean kernel in an empty folder, without timing stamps or widgets.

    Raises:
        BuildError: If a cell fails, if an answer does not pass its check, or if the notebook grows
            too large.
    """
    solved = deepcopy(notebook)
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as sockets:
        client = NotebookClient(
            solved,
            timeout=CELL_SECONDS,
            record_timing=False,
            store_widget_state=False,
            on_cell_executed=_SignOfLife(len(solved.cells)),
            resources={"metadata": {"path": folder}},
            config=_over_files(Path(sockets)),
        )
        try:
            client.execute()
        except CellExecutionError as error:
            raise BuildError(f"a cell of the solved notebook fails:\n{error}") from None
    solved.metadata = notebook.metadata
    solved = with_steady_outputs(solved)
    if failing := [*_failing(solved)]:
        raise BuildError("\n  - ".join(["the solved notebook does not pass its checks:", *failing]))
    if len(nbformat.writes(solved).encode()) > MAX_NOTEBOOK_BYTES:
        raise BuildError("a solved notebook may take 1 MB at most: draw fewer or smaller figures.")
    return solved


def _failing(notebook: NotebookNode) -> Iterator[str]:
    """Each graded cell whose answer does not pass, and what its check says."""
    for cell in notebook.cells:
        if cell.cell_type == "code" and nbgrader_metadata(cell).get("grade"):
            shown = [each.data.get("text/html", "") for each in cell.outputs if "data" in each]
            if not any(PASSED in each for each in shown):
                words = html.unescape(re.sub(r"<[^>]+>", " ", " ".join(shown)))
                yield f"{cell_key(cell)}: {' '.join(words.split())}"


class _SignOfLife:
    """Says how far a notebook is, every ten seconds or so."""

    def __init__(self, num_cells: int) -> None:
        self._num_cells, self._said = num_cells, time.monotonic()

    def __call__(self, *, cell_index: int, **_: object) -> None:
        if time.monotonic() - self._said > SECONDS_BETWEEN_SIGNS:
            print(f"    cell {cell_index + 1} of {self._num_cells}", flush=True)
            self._said = time.monotonic()


def with_steady_outputs(notebook: NotebookNode) -> NotebookNode:
    """The notebook without what differs from run to run: how a text was cut, ids of widgets."""
    joined: NotebookNode
    joined, _ = CoalesceStreamsPreprocessor().preprocess(deepcopy(notebook), {})
    for cell in joined.cells:
        shown = [each.data for each in cell.get("outputs", []) if WIDGET in each.get("data", {})]
        for number, data in enumerate(shown):
            data[WIDGET]["model_id"] = f"{cell.id}-{number}"
    return joined


def _over_files(folder: Path) -> Config:
    """Let a kernel listen on files, where it need not warn of other people on its ports."""
    return Config({"KernelManager": {"transport": "ipc", "ip": str(folder / "kernel")}})


def outputs_of(notebook: NotebookNode) -> list[dict[str, Any]]:
    """What each code cell has shown, in their order."""
    return [
        {"outputs": cell.outputs, "execution_count": cell.execution_count}
        for cell in notebook.cells
        if cell.cell_type == "code"
    ]


def with_outputs(notebook: NotebookNode, outputs: list[dict[str, Any]]) -> NotebookNode:
    """The notebook with those outputs in its code cells; as many as there are of them."""
    code = (cell for cell in notebook.cells if cell.cell_type == "code")
    for cell, shown in zip(code, outputs, strict=True):
        cell.update(shown)
    return notebook
