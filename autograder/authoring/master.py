"""How a text master becomes the instructor notebook, and what must hold for it.

A master is a percent script, the one file of a unit that a person edits. Its header carries the
unit's title, minutes, device and lecture items; marks on its cell lines say the rest (`marks`).
`read` gives the unit and its notebook, or every mistake at once.
"""

import hashlib
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jupytext
import nbformat
from nbformat import NotebookNode

from autograder.authoring import cell_marks, page, reading_time
from autograder.authoring.errors import MasterError
from autograder.catalogue import Exercise, Unit

KERNEL = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
HIDDEN = re.compile(r"BEGIN HIDDEN TESTS[^\n]*\n(?P<body>.*?)\n[^\n]*END HIDDEN TESTS", re.DOTALL)
MARKERS = ("BEGIN SOLUTION", "END SOLUTION", "BEGIN HIDDEN TESTS", "END HIDDEN TESTS")
HEADER = ("title", "device", "lecture")


@dataclass(frozen=True)
class Master:
    """One unit as its author wrote it: what the catalogue says of it, and its notebook."""

    path: Path
    unit: Unit
    notebook: NotebookNode


def read(path: Path) -> Master:
    """Read a text master and turn it into the instructor notebook, without outputs.

    Raises:
        MasterError: If a rule is broken; the message names each place.
    """
    notebook = jupytext.read(path, fmt="py:percent")
    header = notebook.metadata.get("course", {})
    mistakes = [f"the header's `course` lacks `{key}`" for key in HEADER if key not in header]
    mistakes += cell_marks.problems(notebook)
    mistakes += [
        f"the picture {name} is not in solutions/{path.parent.name}"
        for cell in notebook.cells
        for name in page.missing_pictures(path.parent, cell.source)
    ]
    if mistakes:
        listed = "\n".join(f"  - {mistake}" for mistake in mistakes)
        raise MasterError(f"{path.name} cannot be built:\n{listed}")
    unit = _unit(path, notebook)
    cell_marks.to_nbgrader(notebook, unit.number)
    _lay_out(unit, header.get("needs", []), path.parent, notebook)
    return Master(path, unit, _instructor_notebook(unit, notebook))


def solution_bodies(notebook: NotebookNode) -> list[str]:
    """What stands between the solution markers, for every solution cell."""
    found = (cell_marks.SOLUTION.finditer(cell.source) for cell in notebook.cells)
    return [match["body"] for matches in found for match in matches]


def hidden_tests(notebook: NotebookNode) -> list[str]:
    """What stands between the hidden-test markers."""
    return [match["body"] for cell in notebook.cells for match in HIDDEN.finditer(cell.source)]


def _unit(path: Path, notebook: NotebookNode) -> Unit:
    header = notebook.metadata["course"]
    functions = cell_marks.functions(notebook)
    return Unit(
        folder=path.parent.name,
        title=header["title"],
        minutes=header.get("minutes") or _minutes(notebook),
        device=header["device"],
        lecture=tuple(header["lecture"]),
        exercises=tuple(
            _exercise(card, functions.get(card["exercise"], ""))
            for card in cell_marks.cards(notebook)
        ),
    )


def _minutes(notebook: NotebookNode) -> int:
    """What the core takes by its length, where the author names no minutes."""
    cells = reading_time.core(notebook.cells)
    of_cards = (card["minutes"] for card in cell_marks.cards(notebook) if not card.get("extra"))
    return reading_time.length(cells).minutes(sum(of_cards))


def _exercise(card: dict[str, Any], function: str) -> Exercise:
    name, manual = card["exercise"], not function
    return Exercise(
        id=name,
        title=card["title"],
        function=function,
        points=float(card["points"]),
        minutes=card["minutes"],
        difficulty=card["difficulty"],
        importance=card["importance"],
        extra=card.get("extra", False),
        manual=manual,
        graded_cell=name if manual else f"{name}-test",
    )


def _lay_out(unit: Unit, needs: list[str], folder: Path, notebook: NotebookNode) -> None:
    """Give the texts of a page their form: opening, cards, pictures."""
    items = {item.id: item for item in unit.exercises}
    for cell in notebook.cells:
        if cell.metadata.pop("opening", False):
            cell.source = page.opening(unit, needs, cell.source)
        if name := cell.metadata.pop("exercise", ""):
            cell.source = page.card(unit, items[name], cell.source)
            for key in ("extra", *cell_marks.CARD_KEYS):
                cell.metadata.pop(key, None)
        if cell.cell_type == "markdown":
            cell.source = page.with_pictures(folder, cell.source)


def _instructor_notebook(unit: Unit, notebook: NotebookNode) -> NotebookNode:
    seen: Counter[str] = Counter()
    for cell in notebook.cells:
        cell.id = _cell_id(unit, cell, seen)
    language = {"name": "python"}
    notebook.metadata = nbformat.from_dict({"kernelspec": KERNEL, "language_info": language})
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    return notebook


def _cell_id(unit: Unit, cell: NotebookNode, seen: Counter[str]) -> str:
    """Our id where there is one; otherwise made of the text, so that it moves with its cell."""
    if "nbgrader" in cell.metadata:
        return str(cell.metadata["nbgrader"]["grade_id"])
    digest = hashlib.sha256(cell.source.encode()).hexdigest()[:8]
    seen[digest] += 1
    repeat = f"-{seen[digest]}" if seen[digest] > 1 else ""
    return f"u{unit.number}-{digest}{repeat}"
