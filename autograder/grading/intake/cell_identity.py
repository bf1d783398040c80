"""Which of the course's cells is each cell of a student?

A cell goes by nbgrader's name for it, then by its own id, then by an unchanged text. An answer
that goes by none of these, or by the wrong one, is known by the function that its exercise asks
for, if no other cell holds that function under the right name.
"""

import re
from collections.abc import Mapping, Sequence

from nbformat import NotebookNode

from autograder.grading.intake.reading import Cell
from autograder.student.merge_answers import is_solution, key

DEFINITION = re.compile(r"^(?:async +)?(?:def|class) +(\w+)", re.MULTILINE)
UNIT = re.compile(r"^u(\d\d)-")


def names(cells: Sequence[Cell], fresh: NotebookNode) -> list[str]:
    """For each of a student's cells the key of the course's cell that it is, or nothing."""
    known = {key(cell): cell for cell in fresh.cells}
    claimed = [_claimed(cell, known) for cell in cells]
    right = {name for cell, name in zip(cells, claimed, strict=True) if _fits(cell, name, known)}
    claimed = [
        "" if name in right and not _fits(cell, name, known) else name
        for cell, name in zip(cells, claimed, strict=True)
    ]
    return _by_function(cells, _by_text(cells, claimed, fresh), fresh)


def other_unit(cells: Sequence[Cell], fresh: NotebookNode) -> str:
    """Number of the unit whose cells these are, if they are of another one than `fresh`."""
    own = {number for cell in fresh.cells for number in UNIT.findall(key(cell))}
    claims = [claim for cell in cells for claim in cell.claims]
    numbers: list[str] = [number for claim in claims for number in UNIT.findall(claim)]
    if not numbers or own & set(numbers):
        return ""
    return max(sorted(set(numbers)), key=numbers.count)


def _claimed(cell: Cell, known: Mapping[str, NotebookNode]) -> str:
    return next((claim for claim in cell.claims if claim in known), "")


def _fits(cell: Cell, name: str, known: Mapping[str, NotebookNode]) -> bool:
    return bool(name) and cell.kind == known[name].cell_type


def _by_text(cells: Sequence[Cell], claimed: list[str], fresh: NotebookNode) -> list[str]:
    """The names, with those of given cells that lost theirs and kept their text."""
    present = set(claimed)
    lost = {cell.source: key(cell) for cell in fresh.cells if key(cell) not in present}
    return [
        name or lost.pop(cell.source or "", "") for cell, name in zip(cells, claimed, strict=True)
    ]


def _by_function(cells: Sequence[Cell], claimed: list[str], fresh: NotebookNode) -> list[str]:
    """The names, with those of answers that are known only by the function they define."""
    asked = {
        functions[0]: key(cell)
        for cell in fresh.cells
        if is_solution(cell) and (functions := DEFINITION.findall(cell.source))
    }
    holds = [{asked[each] for each in defined(cell) if each in asked} for cell in cells]
    placed = {name for name, held in zip(claimed, holds, strict=True) if name in held}
    return [
        (held - placed).pop() if name not in held and len(held - placed) == 1 else name
        for name, held in zip(claimed, holds, strict=True)
    ]


def defined(cell: Cell) -> list[str]:
    """The functions and classes that a cell defines."""
    return DEFINITION.findall(cell.source or "") if cell.kind == "code" else []
