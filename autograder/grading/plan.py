"""What is run of a notebook, and what is asked, in which order?

Of the cells that the course gives only those run that make a name which an answer, or a cell of the
student's own, reads: figures, explorers and experiments cost most of a notebook's time and decide
no point. Each graded cell becomes a question about the object under one name.
"""

import ast
import symtable
from collections.abc import Iterator
from dataclasses import dataclass

from IPython.core.inputtransformer2 import TransformerManager
from nbformat import NotebookNode

from autograder.student.merge_answers import grader, is_solution, key

DEMONSTRATION = "demonstration"


@dataclass(frozen=True)
class RunCell:
    """Run a cell: its place in the notebook and its source."""

    position: int
    source: str


@dataclass(frozen=True)
class Question:
    """Judge the object under a name as the answer to an exercise."""

    position: int
    exercise: str
    name: str


def steps(notebook: NotebookNode, release: NotebookNode) -> list[RunCell | Question]:
    """The steps for a release with a student's cells in it.

    Args:
        notebook: What intake made.
        release: The notebook as students got it.
    """
    given = {key(cell) for cell in release.cells if not is_solution(cell)}
    questions = dict(_questions(notebook))
    running = [
        position
        for position, cell in enumerate(notebook.cells)
        if cell.cell_type == "code" and position not in questions and not _is_demonstration(cell)
    ]
    theirs = {position for position in running if key(notebook.cells[position]) not in given}
    wanted = {each.name for each in questions.values()}
    needed = _needed(notebook, running, theirs, wanted)
    return [
        questions.get(position) or RunCell(position, notebook.cells[position].source)
        for position in sorted(needed | questions.keys())
    ]


def _questions(notebook: NotebookNode) -> Iterator[tuple[int, Question]]:
    """The graded cells that a check judges: each calls ``check(exercise, name)``."""
    for position, cell in enumerate(notebook.cells):
        meta = grader(cell)
        if cell.cell_type == "code" and meta.get("grade") and not meta.get("solution"):
            exercise, name = next(_checks(cell.source))
            yield position, Question(position, exercise, name)


def _checks(source: str) -> Iterator[tuple[str, str]]:
    """The arguments of the calls of `check` in a cell of the course."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(
                func=ast.Name("check"), args=[ast.Constant(str(exercise)), ast.Name(name)]
            ):
                yield exercise, name


def _is_demonstration(cell: NotebookNode) -> bool:
    return DEMONSTRATION in cell.metadata.get("tags", [])


def _needed(
    notebook: NotebookNode, running: list[int], theirs: set[int], wanted: set[str]
) -> set[int]:
    """All cells of the student's, and those of the course's that make what is read."""
    reads, makes = {}, {}
    for position in running:
        reads[position], makes[position] = _names(notebook.cells[position].source)
    needed = set(theirs)
    for position in theirs:
        wanted |= reads[position]
    while more := {n for n in running if n not in needed and makes[n] & wanted}:
        needed |= more
        wanted |= {name for position in more for name in reads[position]}
    return needed


def _names(source: str) -> tuple[set[str], set[str]]:
    """Names that a cell reads from its notebook, and names that it makes there."""
    try:
        table = symtable.symtable(TransformerManager().transform_cell(source), "cell", "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set(), set()
    made = {symbol.get_name() for symbol in table.get_symbols() if symbol.is_assigned()}
    made |= {symbol.get_name() for symbol in table.get_symbols() if symbol.is_imported()}
    return set(_read(table)), made


def _read(table: symtable.SymbolTable) -> Iterator[str]:
    is_module = table.get_type() == "module"
    for symbol in table.get_symbols():
        if symbol.is_referenced() and (is_module or symbol.is_global()):
            yield symbol.get_name()
    for child in table.get_children():
        yield from _read(child)
