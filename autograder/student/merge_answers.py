"""Put a student's answers into a fresh copy of a notebook.

The course's cells come from the fresh notebook, in order and with their metadata. From the
student's come only the text of the solution cells and the cells that the student added, each after
the known cell that it followed. If a cell was copied with its id, the first copy with an answer
counts; the others become raw cells, which do not run and so cannot undo it.
"""

from collections.abc import Callable, Mapping
from copy import deepcopy

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_raw_cell

from autograder.cells import cell_key, is_solution, no_such_cell
from autograder.commands import CommandError

NEW_CELL: dict[str, Callable[[str], NotebookNode]] = {
    "code": new_code_cell,
    "markdown": new_markdown_cell,
    "raw": new_raw_cell,
}


def merge_answers(
    answers: NotebookNode, fresh: NotebookNode, spare: Mapping[str, str] | None = None
) -> NotebookNode:
    """A copy of `fresh` with the answers and added cells of another notebook.

    Args:
        answers: The student's notebook.
        fresh: The notebook as the course released it.
        spare: Answers by cell key, for cells that the student's notebook lacks.
    """
    texts = dict(spare or {}) | _answers_by_key(answers, fresh)
    added = _added_cells(answers, fresh)
    notebook = deepcopy(fresh)
    cells = list(added.get("", []))
    for cell in notebook.cells:
        if is_solution(cell):
            cell.source = texts.get(cell_key(cell), cell.source)
        cells += [cell, *added.get(cell_key(cell), [])]
    notebook.cells = cells
    return notebook


def _answers_by_key(answers: NotebookNode, fresh: NotebookNode) -> dict[str, str]:
    """The text of each solution cell; of several copies, the first that is not the stub."""
    stubs = {cell_key(cell): cell.source for cell in fresh.cells}
    texts: dict[str, str] = {}
    for cell in filter(is_solution, answers.cells):
        name = cell_key(cell)
        if texts.get(name, stubs.get(name)) == stubs.get(name):
            texts[name] = cell.source
    return texts


def with_cell_reset(notebook: NotebookNode, fresh: NotebookNode, name: str) -> NotebookNode:
    """A copy of a notebook with one cell as released, put back if it is gone.

    Raises:
        CommandError: If the fresh notebook has no such cell.
    """
    order = [cell_key(cell) for cell in fresh.cells]
    if name not in order:
        raise CommandError(f"Nothing was changed: {no_such_cell(name, fresh)}")
    original = deepcopy(fresh.cells[order.index(name)])
    repaired = deepcopy(notebook)
    present = [cell_key(cell) for cell in repaired.cells]
    if name in present:
        repaired.cells[present.index(name)] = original
    else:
        before = [present.index(each) for each in order[: order.index(name)] if each in present]
        repaired.cells.insert(max(before, default=-1) + 1, original)
    return repaired


def _added_cells(answers: NotebookNode, fresh: NotebookNode) -> dict[str, list[NotebookNode]]:
    """The cells that are not the course's, by the key of the course's cell before them."""
    known = {cell_key(cell) for cell in fresh.cells}
    by_text = {cell.source: cell_key(cell) for cell in fresh.cells}
    added: dict[str, list[NotebookNode]] = {}
    seen: set[str] = set()
    last = ""
    for cell in answers.cells:
        name = cell_key(cell) if cell_key(cell) in known else by_text.get(cell.source, "")
        if name and name not in seen:
            seen.add(name)
            last = name
        else:
            added.setdefault(last, []).append(_stripped(cell, is_copy=bool(name)))
    return added


def _stripped(cell: NotebookNode, *, is_copy: bool) -> NotebookNode:
    """A student's own cell without its metadata; a copy of a course's cell becomes raw text."""
    stripped = NEW_CELL["raw" if is_copy else cell.cell_type](cell.source)
    stripped.id = cell.get("id", stripped.id)
    return stripped
