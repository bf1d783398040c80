"""Files as students hand them in: solved notebooks as plain JSON, for tests to damage."""

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

import nbformat
from nbformat import NotebookNode

from autograder.cells import cell_key, is_solution, nbgrader_metadata
from tests.notebooks.filling import UNITS, filled, released, solved

UNIT, OTHER = UNITS[0], UNITS[1]
FRESH = released(UNIT)
ANSWERS = solved(UNIT)


@cache
def text(unit: str = UNIT) -> str:
    """A solved notebook, as the text of its file."""
    return nbformat.writes(filled(unit, solved(unit)))


def plain(unit: str = UNIT) -> dict[str, Any]:
    """A solved notebook, as its JSON."""
    return json.loads(text(unit))


def packed(content: Any) -> bytes:
    return json.dumps(content).encode()


def cell_of(content: Mapping[str, Any], name: str) -> dict[str, Any]:
    return next(cell for cell in content["cells"] if cell["id"] == name)


def beside(name: str, steps: int) -> str:
    """The id of the given cell so many cells below, or above, another of the release."""
    ids = [cell.id for cell in FRESH.cells]
    return ids[ids.index(name) + steps]


def answers_in(notebook: NotebookNode) -> dict[str, str]:
    return {cell.id: cell.source for cell in notebook.cells if is_solution(cell)}


def assert_is_the_release(notebook: NotebookNode, fresh: NotebookNode = FRESH) -> None:
    """All that the course made is there once, in order, as it came; only answers may differ."""
    nbformat.validate(notebook)
    assert notebook.metadata == fresh.metadata
    known = {cell_key(cell) for cell in fresh.cells}
    course = [cell for cell in notebook.cells if cell_key(cell) in known]
    assert [cell.id for cell in course] == [cell.id for cell in fresh.cells]
    for cell, ours in zip(course, fresh.cells, strict=True):
        assert (cell.cell_type, cell.metadata) == (ours.cell_type, ours.metadata), ours.id
        assert is_solution(ours) or cell.source == ours.source, ours.id
        assert not cell.get("outputs")
    for cell in notebook.cells:
        assert cell_key(cell) in known or not nbgrader_metadata(cell)
