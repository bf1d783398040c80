"""Identify the course's cell behind each cell of a student.

A cell is identified by nbgrader's name for it, then by its own id, then by an unchanged text. An
answer without any of these, or with a wrong one, is identified by the function that its exercise
asks for, unless another cell with the right name defines that function.
"""

import re
from collections.abc import Mapping, Sequence

from nbformat import NotebookNode

from autograder.cells import cell_key, is_solution
from autograder.grading.intake.notebook_reader import Cell

DEFINITION = re.compile(r"^(?:async +)?(?:def|class) +(\w+)", re.MULTILINE)
UNIT = re.compile(r"^u(\d\d)-")


def names(cells: Sequence[Cell], fresh: NotebookNode) -> list[str]:
    """For each of a student's cells the key of the course's cell that it is, or '' if none."""
    known = {cell_key(cell): cell for cell in fresh.cells}
    claimed = [next((claim for claim in cell.claims if claim in known), "") for cell in cells]
    right = {name for cell, name in zip(cells, claimed, strict=True) if _fits(cell, name, known)}
    claimed = [
        "" if name in right and not _fits(cell, name, known) else name
        for cell, name in zip(cells, claimed, strict=True)
    ]
    return _by_function(cells, _by_text(cells, claimed, fresh), fresh)


def other_unit(cells: Sequence[Cell], fresh: NotebookNode) -> str:
    """Number of the unit to which the cells belong, if it is not that of `fresh`; else ''."""
    own = {number for cell in fresh.cells for number in UNIT.findall(cell_key(cell))}
    claims = [claim for cell in cells for claim in cell.claims]
    numbers: list[str] = [number for claim in claims for number in UNIT.findall(claim)]
    if not numbers or own & set(numbers):
        return ""
    return max(sorted(set(numbers)), key=numbers.count)


def _fits(cell: Cell, name: str, known: Mapping[str, NotebookNode]) -> bool:
    return bool(name) and cell.kind == known[name].cell_type


def _by_text(cells: Sequence[Cell], claimed: list[str], fresh: NotebookNode) -> list[str]:
    """The names, completed for given cells that lost their name and kept their text."""
    present = set(claimed)
    lost = {cell.source: cell_key(cell) for cell in fresh.cells if cell_key(cell) not in present}
    return [
        name or lost.pop(cell.source or "", "") for cell, name in zip(cells, claimed, strict=True)
    ]


def _by_function(cells: Sequence[Cell], claimed: list[str], fresh: NotebookNode) -> list[str]:
    """The names, completed for answers that are identified only by the function they define."""
    asked = {
        functions[0]: cell_key(cell)
        for cell in fresh.cells
        if is_solution(cell) and (functions := DEFINITION.findall(cell.source))
    }
    answers = [{asked[each] for each in defined(cell) if each in asked} for cell in cells]
    placed = {name for name, answered in zip(claimed, answers, strict=True) if name in answered}
    identified = list(claimed)
    for index, (name, answered) in enumerate(zip(claimed, answers, strict=True)):
        unplaced = answered - placed
        if name not in answered and len(unplaced) == 1:
            identified[index] = unplaced.pop()
    return identified


def defined(cell: Cell) -> list[str]:
    """The functions and classes that a cell defines."""
    return DEFINITION.findall(cell.source or "") if cell.kind == "code" else []
