"""Plan which cells of a notebook are run, and which answers are judged, in which order.

A cell of the course runs only if it defines a name that an answer or a student's own cell reads:
figures, explorers and experiments take most of a notebook's time and decide no point. Each graded
cell becomes a question about the object with one name.
"""

import ast
import symtable
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from nbformat import NotebookNode

from autograder.cell_code import python_of
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

    An answer that needs a cell of the student's further down is asked behind that, run again.

    Args:
        notebook: The release with the student's cells.
        release: The notebook as students got it.
    """
    given = {cell_key(cell) for cell in release.cells if not is_solution(cell)}
    asked = {each.position: each for each in questions(notebook)}
    cells = {
        position: _Code(cell.source, is_theirs=cell_key(cell) not in given)
        for position, cell in enumerate(notebook.cells)
        if cell.cell_type == "code"
        and position not in asked
        and DEMONSTRATION not in cell.metadata.get("tags", [])
    }
    needed = _needed(cells, {each.name for each in asked.values()})
    answers = [n for n, cell in enumerate(notebook.cells) if is_solution(cell)]
    planned: list[tuple[int, RunCell | Question]] = [
        (position, RunCell(position, cells[position].source)) for position in sorted(needed)
    ]
    for position, question in asked.items():
        answer = max((n for n in answers if n < position), default=position)
        if answer in cells and (late := _needs(cells, answer, position)):
            planned += [(late, RunCell(answer, cells[answer].source)), (late, question)]
        else:
            planned.append((position, question))
    return [step for _, step in sorted(planned, key=lambda each: each[0])]


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


class _Code:
    """A cell's code, the names that it reads from its notebook, and those that it defines there."""

    def __init__(self, source: str, *, is_theirs: bool) -> None:
        self.source, self.is_theirs = python_of(source), is_theirs
        self.reads, self.defines = _names(self.source)


def _needed(cells: Mapping[int, _Code], answers: set[str]) -> set[int]:
    """All cells of the student's, and those of the course's on which they depend."""
    needed = {position for position, cell in cells.items() if cell.is_theirs}
    names = answers.union(*(cells[position].reads for position in needed))
    while more := {n for n, cell in cells.items() if n not in needed and cell.defines & names}:
        needed |= more
        names = names.union(*(cells[position].reads for position in more))
    return needed


def _needs(cells: Mapping[int, _Code], answer: int, question: int) -> int:
    """The last of the student's cells below a question that its answer needs; 0 if none."""
    there = set().union(*(cell.defines for n, cell in cells.items() if n < question))
    missing, last = cells[answer].reads - there, 0
    below = {n: cell for n, cell in cells.items() if n > question and cell.is_theirs}
    while found := {n for n, cell in below.items() if cell.defines & missing}:
        last = max(last, *found)
        missing = missing.union(*(below.pop(n).reads for n in found)) - there
    return last


def _names(source: str) -> tuple[set[str], set[str]]:
    """Names that a cell reads from its notebook, and names that it defines there."""
    try:
        table = symtable.symtable(source, "cell", "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set(), set()
    defined = {symbol.get_name() for symbol in table.get_symbols() if symbol.is_assigned()}
    defined |= {symbol.get_name() for symbol in table.get_symbols() if symbol.is_imported()}
    return set(free_names(table)), defined
