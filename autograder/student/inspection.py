"""Check a student's notebook before it is handed in or repaired, and report on it."""

import ast
from collections.abc import Iterator, Mapping
from typing import Any

from autograder import catalogue
from autograder.catalogue import Exercise
from autograder.cell_code import python_of
from autograder.cells import nbgrader_metadata
from autograder.commands import CommandError
from autograder.repairs import repairs
from autograder.student_notebook import StudentNotebook


def refuse(unit: str, mine: StudentNotebook, spare: Mapping[str, str]) -> None:
    """Stop if nothing is of this unit, or an answer is gone that another file or a check has."""
    if not mine.is_of_this_unit():
        raise CommandError(
            f"work/{unit}/{unit}.ipynb holds no cell of this unit. Put the right notebook there, "
            f"or get a fresh one with `make fresh UNIT={unit}`."
        )
    if gone := [name for name in _gone(mine) if name in spare]:
        raise CommandError(
            f"The notebook is not complete: your answer to {', '.join(gone)} is missing. "
            f"`make fresh UNIT={unit}` puts it back and keeps the others."
        )


def report(
    unit: str, mine: StudentNotebook, checked: Mapping[str, dict[str, Any]]
) -> Iterator[str]:
    """One line per exercise: not written, points of its last check, or changed since then."""
    for item in next(each for each in catalogue.units() if each.folder == unit).exercises:
        yield f"  {item.title}: {_state(item, mine, checked.get(item.id, {}))}"


def _state(item: Exercise, mine: StudentNotebook, entry: Mapping[str, Any]) -> str:
    answer = mine.answers.get(item.id, "")
    if not answer.strip() and item.id not in mine.for_readers:
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


def remarks(mine: StudentNotebook) -> Iterator[str]:
    """What was repaired, and what may surprise a student after grading."""
    yield from repairs(mine)
    for name, index in mine.counting.items():
        source, given = mine.cells[index].source or "", mine.known[name]
        is_text = given.cell_type == "markdown" and not nbgrader_metadata(given)
        if is_text and source.strip() != given.source.strip():
            yield (
                f"you changed a text of the course (`{source.strip()[:40]}`); the course's "
                "version is handed in. Keep notes in cells of your own."
            )
    for cell in (mine.cells[index] for index in mine.own):
        source = (cell.source or "").strip()
        if cell.kind == "code" and (why := _syntax_problem(cell.source or "")):
            yield f"a cell of your own is not valid Python ({why}): `{source[:40]}`"


def rescues(mine: StudentNotebook, spare: Mapping[str, str]) -> Iterator[str]:
    """For each answer that a notebook lacks with its cell, say where it comes from."""
    for name in _gone(mine):
        now = "comes from its last check or another file" if name in spare else "starts empty"
        yield f"{name} was not in your notebook; it {now}."


def _gone(mine: StudentNotebook) -> list[str]:
    """Exercises of which neither a cell nor an answer is there."""
    return [name for name in mine.stubs if name not in mine.names and name not in mine.answers]


def _syntax_problem(source: str) -> str:
    """The syntax error of a cell, if any."""
    try:
        compile(python_of(source), "cell", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, True)
    except SyntaxError as error:
        return f"{error.msg}, line {error.lineno}"
    except (ValueError, RecursionError, MemoryError) as error:
        return str(error)
    return ""
