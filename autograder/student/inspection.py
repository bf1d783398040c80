"""Check a student's notebook before it is handed in or repaired, and report on it."""

import ast
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from nbformat import NotebookNode

from autograder import catalogue
from autograder.catalogue import Exercise
from autograder.cells import cell_key, is_solution, nbgrader_metadata
from autograder.commands import CommandError


def refuse_missing_cells(unit: str, fresh: NotebookNode, mine: NotebookNode) -> None:
    """Stop if a cell of the course is missing, or all are, as in a notebook of another unit."""
    present = {cell_key(cell) for cell in mine.cells}
    wanted = [cell_key(cell) for cell in fresh.cells if nbgrader_metadata(cell)]
    if not present.intersection(wanted):
        raise CommandError(
            f"work/{unit}/{unit}.ipynb holds no cell of this unit. Put the right notebook there, "
            f"or get a fresh one with `make fresh UNIT={unit}`."
        )
    if missing := [name for name in wanted if name not in present]:
        raise CommandError(
            f"The notebook is not complete: {', '.join(missing)} is missing. "
            f"`make fresh UNIT={unit}` puts it back and keeps your answers."
        )


def report(
    unit: str,
    handed_in: NotebookNode,
    fresh: NotebookNode,
    checked: Mapping[str, dict[str, Any]],
) -> Iterator[str]:
    """One line per exercise: not written, points of its last check, or changed since then."""
    stubs = {cell_key(cell): cell.source for cell in fresh.cells}
    answers = {cell_key(cell): cell.source for cell in handed_in.cells if is_solution(cell)}
    for item in next(each for each in catalogue.units() if each.folder == unit).exercises:
        answer = answers.get(item.id, "")
        written = bool(answer.strip()) and answer != stubs.get(item.id)
        yield f"  {item.title}: {_state(item, answer, written, checked.get(item.id, {}))}"


def _state(item: Exercise, answer: str, written: bool, entry: Mapping[str, Any]) -> str:
    if not written:
        return "not written yet"
    if item.manual:
        return "will be read by a person"
    if problem := _syntax_problem(answer):
        return f"is not valid Python ({problem}); it earns nothing until you fix it"
    if not entry:
        return "not checked here; run its check to see what it earns"
    if entry.get("source", "").strip() not in answer:
        return "changed since its last check; run the check again to see what it earns"
    return f"{entry['points']:g} of {item.points:g} points at its last check"


def remarks(mine: NotebookNode, fresh: NotebookNode) -> Iterator[str]:
    """What may surprise a student after grading."""
    names = Counter(cell_key(cell) for cell in mine.cells if nbgrader_metadata(cell))
    for name, count in names.items():
        if count > 1:
            yield f"{count} cells have the id {name}; only the first that is written counts."
    yield from _remarks_on_changes(mine, fresh)
    own = [cell for cell in mine.cells if cell.cell_type == "code" and not nbgrader_metadata(cell)]
    for cell in own:
        if why := _syntax_problem(cell.source):
            yield f"a cell of your own is not valid Python ({why}): `{cell.source.strip()[:40]}`"


def _remarks_on_changes(mine: NotebookNode, fresh: NotebookNode) -> Iterator[str]:
    """Name the course's texts and locked cells that a student changed."""
    released = {cell_key(cell): cell for cell in fresh.cells}
    changed = [c for c in mine.cells if released.get(cell_key(c), c).source != c.source]
    for cell in changed:
        if cell.cell_type == "markdown" and not nbgrader_metadata(released[cell_key(cell)]):
            yield (
                f"you changed a text of the course (`{cell.source.strip()[:40]}`); the course's "
                "version is handed in. Keep notes in cells of your own."
            )
    names = [cell_key(cell) for cell in changed]
    if locked := [name for name in names if nbgrader_metadata(released[name]).get("locked")]:
        yield f"you changed {', '.join(locked)}; the course's version is handed in."


def rescues(mine: NotebookNode, fresh: NotebookNode, spare: Mapping[str, str]) -> Iterator[str]:
    """For each solution cell that a notebook lacks, say where its answer comes from."""
    present = {cell_key(cell) for cell in mine.cells}
    for name in (cell_key(cell) for cell in fresh.cells if is_solution(cell)):
        if name not in present:
            now = "comes from its last check or another file" if name in spare else "starts empty"
            yield f"{name} was not in your notebook; it {now}."


def _syntax_problem(source: str) -> str:
    """The syntax error of a cell, if any; cells with IPython commands are skipped."""
    if any(line.lstrip().startswith(("%", "!", "?")) for line in source.splitlines()):
        return ""
    try:
        ast.parse(source)
    except SyntaxError as error:
        return f"{error.msg}, line {error.lineno}"
    return ""
