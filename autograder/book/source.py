"""The sources of the book, as Sphinx takes them: a page for each unit, lectures, glossary, start.

They hold what is in the students' notebooks, outputs of given cells, and the pages in `docs/book`;
nothing is taken from a master or from a cell with a solution.
"""

import shutil
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from autograder import catalogue
from autograder.book.glossary import spellings
from autograder.book.lecture_page import lecture_page
from autograder.book.prose import Linker
from autograder.book.unit_page import unit_page
from autograder.catalogue import Unit

PAGES = Path("docs", "book")


def write_source(root: Path, target: Path) -> None:
    """Write all sources into a folder; what was there is replaced.

    Args:
        root: The full repository, built.
        target: Folder for the sources.
    """
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(root / PAGES, target)
    (target / "units").mkdir()
    (target / "extra" / "notebooks").mkdir(parents=True)
    words = spellings((root / PAGES / "glossary.md").read_text("utf-8"))
    units = catalogue.units()
    files = {unit.number: f"{unit.folder}.ipynb" for unit in units}
    released = {unit.number: (unit, _notebook(root / "notebooks", unit)) for unit in units}
    for unit, notebook in released.values():
        others = {number: file for number, file in files.items() if number != unit.number}
        linker = Linker(others, unit.lecture, words)
        page = unit_page(unit, notebook, _notebook(root / "solutions", unit), linker)
        nbformat.write(page, target / "units" / files[unit.number])
        shutil.copy(_path(root / "notebooks", unit), target / "extra" / "notebooks")
    (target / "lectures.md").write_text(lecture_page(root, released), "utf-8")
    _fill(target / "index.md", "units", _units(units))
    from_start = {number: f"units/{file}" for number, file in files.items()}
    glossary = target / "glossary.md"
    glossary.write_text(Linker(from_start, (), {}).linked(glossary.read_text("utf-8")), "utf-8")


def _path(folder: Path, unit: Unit) -> Path:
    return folder / unit.folder / f"{unit.folder}.ipynb"


def _notebook(folder: Path, unit: Unit) -> NotebookNode:
    notebook: NotebookNode = nbformat.read(_path(folder, unit), as_version=4)
    return notebook


def _fill(page: Path, name: str, text: str) -> None:
    """Put text in place of `%name%` in a page."""
    page.write_text(page.read_text("utf-8").replace(f"%{name}%", text), "utf-8")


def _units(units: tuple[Unit, ...]) -> str:
    """The units as a table, and as the order of pages."""
    rows = [
        f"| [{unit.number}](units/{unit.folder}.ipynb) | {unit.title} | {unit.minutes} |"
        for unit in units
    ]
    pages = [f"units/{unit.folder}" for unit in units]
    tree = ["```{toctree}", ":hidden:", ":caption: Units", "", *pages, "```"]
    return "\n".join(["| unit | question | minutes |", "|---|---|---|", *rows, "", *tree])
