"""Plan which cells of a notebook are run, and which answers are judged, in which order.

A cell of the course runs only if it defines a name that an answer or a student's own cell reads:
figures, explorers and experiments take most of a notebook's time and decide no point. Each graded
cell becomes a question about the object with one name.
"""

import ast
import symtable
from collections.abc import Iterator
from dataclasses import dataclass

from IPython.core.inputtransformer2 import TransformerManager
from nbformat import NotebookNode

from autograder.cells import cell_key, is_solution, nbgrader_metadata
from autograder.global_names import free_names

DEMONSTRATION = "demonstration"


@dataclass(frozen=True)
class RunCell:
    """Run a cell: its position in the notebook and its source."""

    position: int
    source: str


@dataclass(frozen=True)
class Question:
    """Judge the object with a name as the answer to an exercise, for points."""

    position: int
    exercise: str
    name: str
    points: float


def steps(notebook: NotebookNode, release: NotebookNode) -> list[RunCell | Question]:
    """The steps to grade a release with a student's cells in it.

    Args:
        notebook: The release with the student's cells.
        release: The notebook as students got it.
    """
    given = {cell_key(cell) for cell in release.cells if not is_solution(cell)}
    asked = {each.position: each for each in questions(notebook)}
    candidates = [
        position
        for position, cell in enumerate(notebook.cells)
        if cell.cell_type == "code"
        and position not in asked
        and DEMONSTRATION not in cell.metadata.get("tags", [])
    ]
    theirs = {
        position for position in candidates if cell_key(notebook.cells[position]) not in given
    }
    answers = {each.name for each in asked.values()}
    needed = _needed(notebook, candidates, theirs, answers)
    return [
        asked.get(position) or RunCell(position, notebook.cells[position].source)
        for position in sorted(needed | asked.keys())
    ]


def questions(notebook: NotebookNode) -> Iterator[Question]:
    """The graded cells that a check judges: each calls ``check(exercise, name)``."""
    for position, cell in enumerate(notebook.cells):
        meta = nbgrader_metadata(cell)
        if cell.cell_type == "code" and meta.get("grade") and not meta.get("solution"):
            exercise, name = next(_checks(cell.source))
            yield Question(position, exercise, name, float(meta["points"]))


def _checks(source: str) -> Iterator[tuple[str, str]]:
    """The arguments of each call of `check` in a cell of the course."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(
                func=ast.Name("check"), args=[ast.Constant(str(exercise)), ast.Name(name)]
            ):
                yield exercise, name


def _needed(
    notebook: NotebookNode, candidates: list[int], theirs: set[int], answers: set[str]
) -> set[int]:
    """All cells of the student's, and those of the course's on which they depend."""
    reads, defines = {}, {}
    for position in candidates:
        reads[position], defines[position] = _names(notebook.cells[position].source)
    needed = set(theirs)
    names = answers.union(*(reads[position] for position in theirs))
    while more := {n for n in candidates if n not in needed and defines[n] & names}:
        needed |= more
        names = names.union(*(reads[position] for position in more))
    return needed


def _names(source: str) -> tuple[set[str], set[str]]:
    """Names that a cell reads from its notebook, and names that it defines there."""
    try:
        table = symtable.symtable(TransformerManager().transform_cell(source), "cell", "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set(), set()
    defined = {symbol.get_name() for symbol in table.get_symbols() if symbol.is_assigned()}
    defined |= {symbol.get_name() for symbol in table.get_symbols() if symbol.is_imported()}
    return set(free_names(table)), defined
