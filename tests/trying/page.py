"""What a unit's page has too much of, and what fails in those of its cells that have changed."""

import ast
import symtable
from collections.abc import Iterator, Sequence
from pathlib import Path

import jupytext
import nbformat
from nbformat import NotebookNode

from autograder.authoring import reading_time
from autograder.authoring.build import Target
from autograder.authoring.dependencies import Dependencies
from autograder.authoring.errors import BuildError
from autograder.authoring.execution import execute
from autograder.authoring.master import Master
from autograder.cells import nbgrader_metadata
from autograder.global_names import free_names
from autograder.master_code import FileCode


def over_budget(master: Master, exercise: str = "") -> Iterator[str]:
    """Where a unit is longer than one sitting.

    Args:
        master: The unit's master.
        exercise: The one that is worked on, whose card is named; else the longest card is.
    """
    cells = jupytext.read(master.path, fmt="py:percent").cells
    cards = {
        cell.metadata["exercise"]: reading_time.length([cell]).words
        for cell in cells
        if "exercise" in cell.metadata
    }
    longest = max(cards, key=lambda name: cards[name])
    of_card = (
        f": this card has {cards[exercise]}"
        if exercise in cards
        else f": the longest card, of {longest}, has {cards[longest]}"
    )
    found = reading_time.over_budget(reading_time.length(cells), master.unit.minutes)
    for what, sentence in found.items():
        yield f"Unit {master.unit.number}: {sentence}{of_card if what == 'words' else ''}."


def failing_cells(root: Path, master: Master, files: Sequence[Path]) -> Iterator[str]:
    """What fails in the cells that are new or use changed files, run with what they need.

    Checks stay out, which practise with what the build records, and so do demonstrations, which
    take long.

    Args:
        root: The course's.
        master: The unit's master.
        files: Those that differ from the last commit.
    """
    cells = [cell for cell in master.notebook.cells if _is_given(cell)]
    try:
        changed = [*_changed(root, master, cells, set(files))]
        if changed:
            print(f"running {len(changed)} cells that changed, and what they need", flush=True)
            chosen = with_needs(cells, changed)
            execute(nbformat.from_dict(master.notebook | {"cells": chosen}))
    except (BuildError, SyntaxError) as error:
        yield f"Unit {master.unit.number}: {error}"


def _changed(
    root: Path, master: Master, cells: Sequence[NotebookNode], files: set[Path]
) -> Iterator[NotebookNode]:
    """The cells that were not executed as they are, and those that use one of some files."""
    executed = Target(root, master.unit.folder).instructor
    known = set()
    if executed.exists():
        known = {cell.source for cell in nbformat.read(executed, as_version=4).cells}
    code, uses = FileCode(master.path), Dependencies(root)
    for cell in cells:
        if cell.source not in known or files & uses.of(code.behind(cell.source)):
            yield cell


def with_needs(cells: Sequence[NotebookNode], wanted: Sequence[NotebookNode]) -> list[NotebookNode]:
    """Some cells, and those before them that give names a value or a part that they read."""
    names, kept = set[str](), list[NotebookNode]()
    for cell in reversed(cells):
        if cell in wanted or names & _set_in(cell.source):
            names.update(free_names(symtable.symtable(cell.source, cell.id, "exec")))
            kept.append(cell)
    return kept[::-1]


def _is_given(cell: NotebookNode) -> bool:
    is_check = nbgrader_metadata(cell).get("grade", False)
    is_demonstration = "demonstration" in cell.metadata.get("tags", [])
    return bool(cell.cell_type == "code" and not is_check and not is_demonstration)


def _set_in(source: str) -> set[str]:
    """The names that a source defines or imports, or of which it sets an item or an attribute."""
    found = set[str]()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                found.add(name)
            case ast.alias(name=name, asname=other):
                found.add(other or name.split(".")[0])
            case ast.Name(id=name, ctx=ast.Store()):
                found.add(name)
            case ast.Attribute(value=ast.Name(id=name), ctx=ast.Store()):
                found.add(name)
            case ast.Subscript(value=ast.Name(id=name), ctx=ast.Store()):
                found.add(name)
    return found
