"""What is to be said of a student's notebook before it is handed in or mended?"""

import ast
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from nbformat import NotebookNode

from autograder import catalogue
from autograder.catalogue import Exercise
from autograder.student.errors import CommandError
from autograder.student.merge_answers import grader, is_solution, key


def refuse_other_unit(unit: str, fresh: NotebookNode, mine: NotebookNode) -> None:
    """Stop if a notebook holds only cells of other units."""
    wanted, got = _units_of(fresh), _units_of(mine)
    if got and not wanted & got:
        raise CommandError(
            f"work/{unit}/{unit}.ipynb holds cells of {', '.join(sorted(got))}, not of "
            f"{', '.join(sorted(wanted))}. Put the right notebook there, or get a fresh one "
            f"with `make fresh UNIT={unit}`."
        )


def refuse_missing_cells(unit: str, fresh: NotebookNode, mine: NotebookNode) -> None:
    """Stop if a cell that is written or graded is gone."""
    present = {key(cell) for cell in mine.cells}
    missing = [key(cell) for cell in fresh.cells if grader(cell) and key(cell) not in present]
    if missing:
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
    """One line an exercise: not written, points of its last check, or changed since then."""
    stubs = {key(cell): cell.source for cell in fresh.cells}
    answers = {key(cell): cell.source for cell in handed_in.cells if is_solution(cell)}
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
        return f"is no Python ({problem}); it will earn nothing as it is"
    if not entry:
        return "not checked here; run its check to see what it earns"
    if entry.get("source", "").strip() not in answer:
        return "changed since its last check; run the check again to see what it earns"
    return f"{entry['points']:g} of {item.points:g} points at its last check"


def remarks(mine: NotebookNode, fresh: NotebookNode) -> Iterator[str]:
    """What may surprise a student after the grading."""
    names = Counter(key(cell) for cell in mine.cells if grader(cell))
    for name, count in names.items():
        if count > 1:
            yield f"{count} cells claim to be {name}; the first written counts, no other runs."
    given = {key(cell): cell.source for cell in fresh.cells if grader(cell).get("locked")}
    changed = [key(cell) for cell in mine.cells if given.get(key(cell), cell.source) != cell.source]
    theirs = {key(cell): cell.source for cell in fresh.cells if not grader(cell)}
    for cell in mine.cells:
        if cell.cell_type == "markdown" and theirs.get(key(cell), cell.source) != cell.source:
            yield (
                f"you wrote into a text of the course (`{cell.source.strip()[:40]}`); it is handed "
                "in as it came. Notes are kept in cells of your own."
            )
    if changed:
        yield f"you changed {', '.join(changed)}; it is handed in as the course made it."
    for cell in mine.cells:
        if cell.cell_type == "code" and not grader(cell) and (why := _syntax_problem(cell.source)):
            yield f"a cell of your own is no Python ({why}): `{cell.source.strip()[:40]}`"


def rescues(mine: NotebookNode, fresh: NotebookNode, spare: Mapping[str, str]) -> Iterator[str]:
    """For answers that a notebook has lost: where each comes from, or that it is gone."""
    present = {key(cell) for cell in mine.cells}
    for name in (key(cell) for cell in fresh.cells if is_solution(cell)):
        if name not in present and name in spare:
            yield f"{name} was not in your notebook; its last check or an older file has it."
        elif name not in present:
            yield f"{name} was not in your notebook; it starts anew."


def _syntax_problem(source: str) -> str:
    """What Python would say about a cell; cells with commands of IPython are left alone."""
    if any(line.lstrip().startswith(("%", "!", "?")) for line in source.splitlines()):
        return ""
    try:
        ast.parse(source)
    except SyntaxError as error:
        return f"{error.msg}, line {error.lineno}"
    return ""


def _units_of(notebook: NotebookNode) -> set[str]:
    names = [str(grader(cell).get("grade_id", "")) for cell in notebook.cells]
    return {f"unit {name[1:3]}" for name in names if name[:1] == "u" and name[1:3].isdigit()}
