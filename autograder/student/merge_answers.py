"""How do a student's answers get into a fresh copy of a notebook?

The fresh notebook gives every cell that the course made, in its place and with its metadata; the
other one gives only the text of its solution cells and the cells that the student added, each
after the known cell it followed. Of cells that were copied with their id, the first in which
something is written counts; the others are kept as raw text, which does not run and so cannot undo
it.
"""

import difflib
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from typing import Any

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_raw_cell

MAKE: dict[str, Callable[[str], NotebookNode]] = {
    "code": new_code_cell,
    "markdown": new_markdown_cell,
    "raw": new_raw_cell,
}


def merge_answers(
    answers: NotebookNode, fresh: NotebookNode, spare: Mapping[str, str] | None = None
) -> NotebookNode:
    """A copy of `fresh` with the answers and the added cells of another notebook in it.

    Args:
        answers: The student's notebook.
        fresh: The notebook as the course released it.
        spare: Answers by the key of their cell, for cells that the student's notebook lacks.
    """
    texts = dict(spare or {}) | _written(answers, fresh)
    added = _added(answers, fresh)
    notebook = deepcopy(fresh)
    cells = list(added.get("", []))
    for cell in notebook.cells:
        if is_solution(cell):
            cell.source = texts.get(key(cell), cell.source)
        cells += [cell, *added.get(key(cell), [])]
    notebook.cells = cells
    return notebook


def _written(answers: NotebookNode, fresh: NotebookNode) -> dict[str, str]:
    """The text of each solution cell; of several copies the first in which something is written."""
    stubs = {key(cell): cell.source for cell in fresh.cells}
    texts: dict[str, str] = {}
    for name, cell in _solutions(answers):
        if texts.get(name, stubs.get(name)) == stubs.get(name):
            texts[name] = cell.source
    return texts


def with_cell_reset(notebook: NotebookNode, fresh: NotebookNode, name: str) -> NotebookNode:
    """A copy of a notebook in which one cell is again as it came, put back if it is gone.

    Raises:
        KeyError: If the fresh notebook has no such cell.
    """
    order = [key(cell) for cell in fresh.cells]
    if name not in order:
        raise KeyError(near(name, fresh))
    original = deepcopy(fresh.cells[order.index(name)])
    mended = deepcopy(notebook)
    present = [key(cell) for cell in mended.cells]
    if name in present:
        mended.cells[present.index(name)] = original
    else:
        before = [present.index(each) for each in order[: order.index(name)] if each in present]
        mended.cells.insert(max(before, default=-1) + 1, original)
    return mended


def key(cell: NotebookNode) -> str:
    """What a cell is known by: the course's id for it, or its own."""
    return str(grader(cell).get("grade_id") or cell.get("id", ""))


def grader(cell: NotebookNode) -> dict[str, Any]:
    """The nbgrader metadata of a cell, empty where it has none or something else."""
    meta = cell.metadata.get("nbgrader", {})
    return meta if isinstance(meta, dict) else {}


def is_solution(cell: NotebookNode) -> bool:
    """Whether a student writes in this cell."""
    return bool(grader(cell).get("solution"))


def near(name: str, fresh: NotebookNode) -> str:
    """A sentence about a cell that is not there, with those that may have been meant."""
    named = [key(cell) for cell in fresh.cells if grader(cell)]
    found = difflib.get_close_matches(name, named, n=3) or named
    return f"there is no cell {name!r}; is it one of {', '.join(found)}?"


def _solutions(notebook: NotebookNode) -> Iterator[tuple[str, NotebookNode]]:
    return ((key(cell), cell) for cell in notebook.cells if is_solution(cell))


def _added(answers: NotebookNode, fresh: NotebookNode) -> dict[str, list[NotebookNode]]:
    """The cells that are not the course's, by the key of the known cell before them."""
    known = {key(cell) for cell in fresh.cells}
    by_text = {cell.source: key(cell) for cell in fresh.cells}
    added: dict[str, list[NotebookNode]] = {}
    seen: set[str] = set()
    last = ""
    for cell in answers.cells:
        name = key(cell) if key(cell) in known else by_text.get(cell.source, "")
        if name and name not in seen:
            seen.add(name)
            last = name
        else:
            added.setdefault(last, []).append(_own(cell, is_copy=bool(name)))
    return added


def _own(cell: NotebookNode, *, is_copy: bool) -> NotebookNode:
    """A student's own cell: its text, and nothing that nbgrader or an editor reads."""
    own = MAKE["raw" if is_copy else cell.cell_type](cell.source)
    own.id = cell.get("id", own.id)
    return own
