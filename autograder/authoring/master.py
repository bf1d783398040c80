"""How does a text master become a notebook, and what must hold for it?

A master is a percent script, the one file of a unit that a person edits. Its header carries the
unit's title, minutes, device and lecture items; the line of an exercise's card carries what the
card says; nbgrader's own metadata on a cell's line says which cell is a solution and which is
graded, with its points. `read` gives the unit and its notebook, or every mistake at once.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jupytext
import nbformat
from nbformat import NotebookNode

from autograder.catalogue import Exercise, Unit

KERNEL = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
SOLUTION = re.compile(r"BEGIN SOLUTION[^\n]*\n(?P<body>.*?)\n[^\n]*END SOLUTION", re.DOTALL)
HIDDEN = re.compile(r"BEGIN HIDDEN TESTS[^\n]*\n(?P<body>.*?)\n[^\n]*END HIDDEN TESTS", re.DOTALL)
MARKERS = ("BEGIN SOLUTION", "END SOLUTION", "BEGIN HIDDEN TESTS", "END HIDDEN TESTS")
HEADER = ("title", "minutes", "device", "lecture")
CARD = ("id", "title", "difficulty", "importance", "minutes")


class MasterError(ValueError):
    """A master that cannot be built; the message lists every reason."""


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
    mistakes = [*_header_mistakes(notebook), *_cell_mistakes(notebook)]
    if mistakes:
        listed = "\n".join(f"  - {mistake}" for mistake in mistakes)
        raise MasterError(f"{path.name} cannot be built:\n{listed}")
    unit = _unit(path, notebook)
    return Master(path, unit, _instructor_notebook(unit, notebook))


def grader(cell: NotebookNode) -> dict[str, Any]:
    """The nbgrader metadata of a cell, empty where it has none."""
    return dict(cell.metadata.get("nbgrader", {}))


def solution_bodies(notebook: NotebookNode) -> list[str]:
    """What stands between the solution markers, for every solution cell."""
    return [match["body"] for cell in notebook.cells for match in SOLUTION.finditer(cell.source)]


def hidden_tests(notebook: NotebookNode) -> list[str]:
    """What stands between the hidden-test markers."""
    return [match["body"] for cell in notebook.cells for match in HIDDEN.finditer(cell.source)]


def _header_mistakes(notebook: NotebookNode) -> Iterator[str]:
    header = notebook.metadata.get("course", {})
    for key in HEADER:
        if key not in header:
            yield f"the header's `course` lacks `{key}`"


def _cell_mistakes(notebook: NotebookNode) -> Iterator[str]:
    ids = Counter(grader(cell)["grade_id"] for cell in notebook.cells if grader(cell))
    yield from (f"the id {name} stands on {n} cells" for name, n in ids.items() if n > 1)
    cards = {cell.metadata["exercise"].get("id") for cell in _cards(notebook)}
    for cell in notebook.cells:
        name = grader(cell).get("grade_id", f"the cell `{cell.source.strip()[:40]}`")
        yield from (f"{name}: {mistake}" for mistake in _mistakes_of_one(cell, cards))
    graded = {exercise_of(name) for name in ids if _is_graded(notebook, name)}
    yield from (f"the card of {name} has no graded cell" for name in cards - graded)
    for cell in _cards(notebook):
        missing = [key for key in CARD if key not in cell.metadata["exercise"]]
        if missing:
            yield f"the card of {cell.metadata['exercise'].get('id')} lacks {', '.join(missing)}"


def _is_graded(notebook: NotebookNode, grade_id: str) -> bool:
    return any(
        grader(cell).get("grade") and grader(cell)["grade_id"] == grade_id
        for cell in notebook.cells
    )


def _mistakes_of_one(cell: NotebookNode, cards: set[str]) -> Iterator[str]:
    meta, source = grader(cell), cell.source
    if meta.get("grade") and not meta.get("points"):
        yield "a graded cell needs points"
    if meta.get("solution") and not _has_body(source):
        yield "a solution cell needs a body between BEGIN SOLUTION and END SOLUTION"
    if "BEGIN SOLUTION" in source and not meta.get("solution"):
        yield "a solution stands in a cell that is not marked as one"
    if "BEGIN HIDDEN TESTS" in source and not (meta.get("locked") and meta.get("grade")):
        yield "a hidden test stands outside a locked, graded cell"
    if source.count("BEGIN HIDDEN TESTS") > 1:
        yield "one hidden test a cell, no more"
    if source.count("BEGIN SOLUTION") != len(SOLUTION.findall(source)):
        yield "every BEGIN SOLUTION needs an END SOLUTION, and a body between them"
    if meta.get("grade") and exercise_of(meta["grade_id"]) not in cards:
        yield f"no card before it says `exercise` with the id {exercise_of(meta['grade_id'])}"
    if meta.get("grade") and not meta.get("solution"):
        yield from _check_mistakes(source, exercise_of(meta["grade_id"]))


def _has_body(source: str) -> bool:
    """One body, or one for each method of a class."""
    bodies = [match["body"] for match in SOLUTION.finditer(source)]
    return bool(bodies) and all(body.strip() for body in bodies)


def _check_mistakes(source: str, exercise: str) -> Iterator[str]:
    """A graded cell calls `check` openly and ends, hidden, with `grade` of the same exercise."""
    hidden = HIDDEN.search(source)
    if f'check("{exercise}", ' not in HIDDEN.sub("", source):
        yield f'it must call check("{exercise}", ...)'
    if hidden is None or not hidden["body"].strip().split("\n")[-1].startswith(
        f'grade("{exercise}", '
    ):
        yield f'its hidden test must end with grade("{exercise}", ...)'


def exercise_of(grade_id: str) -> str:
    """The exercise that a graded cell belongs to: its id without the role behind it."""
    return grade_id.removesuffix("-test")


def _cards(notebook: NotebookNode) -> list[NotebookNode]:
    return [cell for cell in notebook.cells if "exercise" in cell.metadata]


def _unit(path: Path, notebook: NotebookNode) -> Unit:
    header = notebook.metadata["course"]
    graded = {
        exercise_of(grader(cell)["grade_id"]): cell
        for cell in notebook.cells
        if grader(cell).get("grade")
    }
    return Unit(
        folder=path.parent.name,
        title=header["title"],
        minutes=header["minutes"],
        device=header["device"],
        lecture=tuple(header["lecture"]),
        exercises=tuple(
            _exercise(card.metadata["exercise"], graded[card.metadata["exercise"]["id"]])
            for card in _cards(notebook)
        ),
    )


def _exercise(card: dict[str, Any], graded_cell: NotebookNode) -> Exercise:
    return Exercise(
        **{key: card[key] for key in CARD},
        points=float(grader(graded_cell)["points"]),
        extra=card.get("extra", False),
        manual=bool(grader(graded_cell)["solution"]),
        graded_cell=grader(graded_cell)["grade_id"],
    )


def _instructor_notebook(unit: Unit, notebook: NotebookNode) -> NotebookNode:
    exercises = {item.id: item for item in unit.exercises}
    seen: Counter[str] = Counter()
    for cell in notebook.cells:
        if card := cell.metadata.pop("exercise", None):
            position = list(exercises).index(card["id"]) + 1
            cell.source = f"{_card_head(unit, position, exercises[card['id']])}\n\n{cell.source}"
        cell.id = _cell_id(unit, cell, seen)
    language = {"name": "python"}
    notebook.metadata = nbformat.from_dict({"kernelspec": KERNEL, "language_info": language})
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    return notebook


def _card_head(unit: Unit, position: int, item: Exercise) -> str:
    points = "1 point" if item.points == 1 else f"{item.points:g} points"
    kind = "extra" if item.extra else "core"
    reader = " · read by a person" if item.manual else ""
    return (
        f"### Exercise {unit.folder[:2]}.{position} · {item.title}\n"
        f"difficulty {_dots(item.difficulty)} · importance {_dots(item.importance)} · "
        f"{item.minutes} minutes · {points} · {kind}{reader}"
    )


def _dots(count: int) -> str:
    return "●" * count + "○" * (5 - count)


def _cell_id(unit: Unit, cell: NotebookNode, seen: Counter[str]) -> str:
    """Our id where there is one; otherwise made of the text, so that it moves with its cell."""
    if name := grader(cell).get("grade_id"):
        return str(name)
    digest = hashlib.sha256(cell.source.encode()).hexdigest()[:8]
    seen[digest] += 1
    repeat = f"-{seen[digest]}" if seen[digest] > 1 else ""
    return f"u{unit.folder[:2]}-{digest}{repeat}"
