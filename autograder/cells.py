"""What a cell of a notebook is: its id, its marks, and whether a student writes in it."""

import difflib
from typing import Any

from nbformat import NotebookNode


def cell_key(cell: NotebookNode) -> str:
    """The id of a cell: the course's if it has one, else its own."""
    return str(nbgrader_metadata(cell).get("grade_id") or cell.get("id", ""))


def nbgrader_metadata(cell: NotebookNode) -> dict[str, Any]:
    """The nbgrader metadata of a cell; empty if it has none, or something else there."""
    meta = cell.metadata.get("nbgrader", {})
    return meta if isinstance(meta, dict) else {}


def is_solution(cell: NotebookNode) -> bool:
    """Whether a student writes in this cell."""
    return bool(nbgrader_metadata(cell).get("solution"))


def no_such_cell(name: str, fresh: NotebookNode) -> str:
    """Say that there is no such cell, with the nearest names."""
    named = [cell_key(cell) for cell in fresh.cells if nbgrader_metadata(cell)]
    found = difflib.get_close_matches(name, named, n=3) or named
    return f"there is no cell {name!r}; is it one of {', '.join(found)}?"
