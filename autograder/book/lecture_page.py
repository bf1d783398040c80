"""The page of the lectures: for each of their items, the units and the exercises that treat it."""

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from nbformat import NotebookNode

from autograder.book.unit_page import exercise_of
from autograder.catalogue import Exercise, Unit

HEADING = re.compile(r"## (?P<letter>[ESB]): (?P<title>.+)")
ROW = re.compile(r"\| (?P<item>[ESB]\d+) \| (?P<subject>.+) \|")


def lecture_page(root: Path, units: Mapping[str, tuple[Unit, NotebookNode]]) -> str:
    """The page in Markdown, of `docs/lectures.md` and `tests/coverage_map.csv`.

    Args:
        root: The full repository.
        units: Each unit and its released notebook, by the unit's number.
    """
    places = coverage(root)
    lines = []
    for line in (root / "docs" / "lectures.md").read_text("utf-8").splitlines():
        if found := ROW.fullmatch(line):
            label = f"lecture-{found['item'].lower()}"
            lines += ["", f"({label})=", f"### {found['item']} · {found['subject']}", ""]
            lines += [
                _place(found["item"], state, *units[number])
                for number, state in places[found["item"]]
            ]
        elif not line.startswith("|"):
            lines.append(line)
    return "\n".join(lines) + "\n"


def coverage(root: Path) -> dict[str, list[tuple[str, str]]]:
    """Number of the unit and what it does with the item, for each item of the lectures."""
    found: dict[str, list[tuple[str, str]]] = {}
    with (root / "tests" / "coverage_map.csv").open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            found.setdefault(row["item"], []).append((row["unit"], row["state"]))
    return found


def exercises_on(item: str, unit: Unit, cells: Sequence[NotebookNode]) -> Iterator[Exercise]:
    """Exercises on a lecture item: those whose card, or the prose before it, names the item."""
    named = re.compile(rf"(?<![\w/-]){item}(?![\w-])")
    is_named = False
    for cell in cells[1:]:  # the opening lists all items of the unit
        if cell.cell_type != "markdown":
            continue
        if cell.source.startswith("## "):
            is_named = False
        is_named = is_named or bool(named.search(cell.source))
        exercise = exercise_of(unit, cell.source)
        if exercise and is_named:
            yield exercise
            is_named = False


def _place(item: str, state: str, unit: Unit, notebook: NotebookNode) -> str:
    line = f"- {state} in [unit {unit.number} · {unit.title}](units/{unit.folder}.ipynb)"
    links = [
        f"{{ref}}`{unit.number}.{unit.exercises.index(each) + 1} · {each.title} <{each.id}>`"
        for each in exercises_on(item, unit, notebook.cells)
    ]
    return f"{line}: {', '.join(links)}" if links else line
