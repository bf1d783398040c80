"""Merge the answers of whatever file was handed in into the release.

The release supplies every cell of the course with its type, metadata and points; the file supplies
the text of the answers and the cells that the student added. Each repair becomes a remark, one
sentence for a teacher. If nothing can be taken, the release stays unchanged and a person looks.
A file is compared with the release that its student had, so that no later one is held against it.
"""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass

from nbformat import NotebookNode

from autograder import catalogue
from autograder.cells import cell_key, is_solution
from autograder.notebook_reader import Cell, Unreadable, read
from autograder.repairs import lost_answers, repairs
from autograder.student_notebook import StudentNotebook, filled_in, is_added


@dataclass(frozen=True)
class Merged:
    """A notebook to grade, remarks for a teacher, and why a person has to look.

    Nothing was taken from a foreign file: it is not a notebook, or not one of this unit. `given` is
    the release that the student had, if it is another one.
    """

    notebook: NotebookNode
    remarks: tuple[str, ...] = ()
    needs_human: tuple[str, ...] = ()
    is_foreign: bool = False
    given: NotebookNode | None = None


def merge(raw: bytes | None, fresh: NotebookNode, others: Sequence[NotebookNode] = ()) -> Merged:
    """The release with the answers and the added cells of a file; never raises.

    Args:
        raw: What was handed in, or None if nothing could be read.
        fresh: The notebook as the course released it.
        others: The notebooks of other releases, which some students may have.
    """
    if raw is None:
        why = "There is no notebook to grade."
        return Merged(deepcopy(fresh), needs_human=(why,), is_foreign=True)
    try:
        cells, odd = read(raw)
    except Unreadable as error:
        why = f"The file is no notebook: {error}."
        return Merged(deepcopy(fresh), needs_human=(why,), is_foreign=True)
    given = _given(cells, [fresh, *others])
    notebook = StudentNotebook(cells, given)
    if reason := _foreign(notebook):
        return Merged(deepcopy(fresh), tuple(odd), (reason,), is_foreign=True)
    merged = notebook.release(to_read=True)
    remarks, lost = (*odd, *repairs(notebook)), tuple(lost_answers(notebook))
    if given is fresh:
        return Merged(merged, remarks, lost)
    return Merged(_carried_over(merged, given, fresh), remarks, lost, given=given)


def num_answers(raw: bytes, releases: Sequence[NotebookNode]) -> int:
    """How many answers a file holds to the release that it is of; 0 if it is no notebook."""
    try:
        cells, _ = read(raw)
    except Unreadable:
        return 0
    return len(StudentNotebook(cells, _given(cells, releases)).answers)


def _given(cells: Sequence[Cell], releases: Sequence[NotebookNode]) -> NotebookNode:
    """The release whose own texts a file has and lacks fewest of; the first among equals."""
    texts = {cell.source for cell in cells}

    def likeness(release: NotebookNode) -> int:
        given = [cell.source in texts for cell in release.cells if not is_solution(cell)]
        return 2 * sum(given) - len(given)

    return max(releases, key=likeness)


def _carried_over(merged: NotebookNode, given: NotebookNode, fresh: NotebookNode) -> NotebookNode:
    """The student's part of a notebook in another release: written answers, and added cells."""
    stubs = {(cell_key(cell), cell.source) for cell in given.cells}
    places = {(cell_key(cell), cell.cell_type) for cell in fresh.cells}
    texts: dict[str, str] = {}
    added: dict[str, list[NotebookNode]] = {}
    last = ""
    for cell in merged.cells:
        key = cell_key(cell)
        if is_added(cell):
            added.setdefault(last, []).append(cell)
        elif (key, cell.cell_type) in places:
            last = key
            if (key, cell.source) not in stubs:
                texts[key] = cell.source
    return filled_in(fresh, texts, added)


def _foreign(notebook: StudentNotebook) -> str:
    """Why this is not a notebook of the unit; '' if it is one."""
    if number := notebook.other_unit():
        titles = [unit.title for unit in catalogue.units() if unit.number == number]
        title = f" ({titles[0]})" if titles else ""
        return f"The notebook seems to be of unit {number}{title}; nothing of it was taken."
    if not notebook.is_of_this_unit():
        return f"None of the {len(notebook.cells)} cells of the file is an exercise of this unit."
    return ""
