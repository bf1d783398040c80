"""Hand in a notebook, or repair one: `make submit` and `make fresh`.

Nothing is lost: a notebook that is replaced is kept in the folder `before` beside it.
"""

import contextlib
import re
import shutil
from collections.abc import Iterator
from copy import deepcopy
from datetime import datetime
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode

from autograder import progress_file
from autograder.cells import no_such_cell
from autograder.commands import CommandError, find_unit
from autograder.files import replacing, write_whole
from autograder.notebook_reader import Cell, read
from autograder.student import inspection
from autograder.student_notebook import StudentNotebook


class WorkFolder:
    """A student's work folder, and the releases that it came from."""

    def __init__(self, root: Path, work: Path | None = None) -> None:
        self.root, self.work = root, work or root / "work"

    def submit(self, wanted: str) -> Path:
        """Write the file to hand in, if the notebook is saved, complete and of this unit.

        Args:
            wanted: The unit's folder name or number.

        Raises:
            CommandError: If it is not; the message says what to do.
        """
        unit = find_unit(self.root / "notebooks", wanted)
        path, fresh = self._notebook(unit), self._release(unit)
        mine = StudentNotebook(_cells(path), fresh)
        inspection.refuse(unit, mine, self._spare_answers(path, fresh))
        self._refuse_unsaved(unit, mine)
        for line in inspection.report(unit, mine, self._checked()):
            print(line)
        for line in inspection.remarks(mine):
            print(f"Note: {line}")
        handed_in = self.work / "hand_in" / f"{unit}.ipynb"
        write_whole(handed_in, nbformat.writes(mine.release(to_read=False)))
        return handed_in

    def fresh(self, wanted: str, cell: str = "") -> Path | None:
        """Replace a notebook by a fresh one with the answers in it, or reset one cell.

        Args:
            wanted: The unit's folder name or number.
            cell: Id of the one cell to reset; empty for a whole fresh notebook.

        Returns:
            Where the old notebook is kept, or None if there was none.
        """
        unit = find_unit(self.root / "notebooks", wanted)
        path, release = self._notebook(unit), self._release(unit)
        repaired = self._repaired(path, release, cell)
        kept = self._keep(path) if path.exists() else None
        write_whole(path, nbformat.writes(repaired))
        return kept

    def _repaired(self, path: Path, release: NotebookNode, cell: str) -> NotebookNode:
        try:
            if cell:
                return with_cell_reset(_read(path), release, cell)
            mine = StudentNotebook(_cells(path), release)
        except _NoNotebookError:  # none to reset one cell in: make a whole fresh one
            mine = StudentNotebook((), release)
        gone = set(mine.known).difference(mine.names, mine.answers)
        spare = self._spare_answers(path, release)
        for line in inspection.rescues(mine, spare):
            print(line)
        return mine.release({name: spare[name] for name in gone & spare.keys()}, to_read=False)

    def _spare_answers(self, path: Path, release: NotebookNode) -> dict[str, str]:
        """Answers for cells that a notebook lacks: from other files, then from the checks."""
        handed_in = (self.work / "hand_in").glob(path.name)
        others = [file for file in (*handed_in, *path.parent.rglob("*.ipynb")) if file != path]
        spare: dict[str, str] = {}
        for file in sorted(others, key=lambda file: file.stat().st_mtime):
            with contextlib.suppress(CommandError):
                other = StudentNotebook(_cells(file), release)
                spare |= other.answers if other.is_of_this_unit() else {}
        sources = {name: entry.get("source", "") for name, entry in self._checked().items()}
        return spare | {name: source.rstrip("\n") for name, source in sources.items() if source}

    def _keep(self, path: Path) -> Path:
        kept = path.parent / "before" / f"{path.stem}-{datetime.now():%Y%m%d-%H%M%S-%f}.ipynb"
        kept.parent.mkdir(exist_ok=True)
        with replacing(kept) as copy:  # the notebook stays until the new one is written
            shutil.copy2(path, copy)
        return kept

    def _notebook(self, unit: str) -> Path:
        return self.work / unit / f"{unit}.ipynb"

    def _release(self, unit: str) -> NotebookNode:
        return _read(self.root / "notebooks" / unit / f"{unit}.ipynb")

    def _checked(self) -> dict[str, dict[str, Any]]:
        """The entries of the last checks; none where there was no check."""
        path = self.work / progress_file.NAME
        return dict(progress_file.read(path)["exercises"]) if path.exists() else {}

    def _refuse_unsaved(self, unit: str, mine: StudentNotebook) -> None:
        """Stop if an answer was checked after the last save and is not in the file."""
        saved = datetime.fromtimestamp(self._notebook(unit).stat().st_mtime).isoformat()
        for name, entry in self._checked().items():
            is_later = entry.get("checked", "") > saved  # both in local time, in the same form
            source = entry.get("source", "").strip()
            if name in mine.asked and is_later and source not in mine.answers.get(name, ""):
                raise CommandError(
                    f"The notebook is not saved: your answer to {name} was checked at "
                    f"{entry['checked'][11:16]}, after the last save. Save it (Ctrl-S) and run "
                    f"`make submit UNIT={unit}` again."
                )


def with_cell_reset(notebook: NotebookNode, fresh: NotebookNode, name: str) -> NotebookNode:
    """A copy of a notebook with one cell as released, put back if it is gone.

    Raises:
        CommandError: If the fresh notebook has no such cell.
    """
    cells = read(nbformat.writes(notebook).encode())[0]
    mine = StudentNotebook(cells, fresh)
    if name not in mine.known:
        raise CommandError(f"Nothing was changed: {no_such_cell(name, fresh)}")
    repaired, original = deepcopy(notebook), deepcopy(mine.known[name])
    if name in mine.counting:
        repaired.cells[mine.counting[name]] = original
    else:
        order = list(mine.known)
        before = order[: order.index(name)]
        there = [index for each, index in mine.counting.items() if each in before]
        repaired.cells.insert(max(there, default=-1) + 1, original)
    return repaired


class _NoNotebookError(CommandError):
    """There is no notebook, or only a damaged one."""


def _cells(path: Path) -> list[Cell]:
    with _one_sentence_errors(path):
        return read(path.read_bytes())[0]


def _read(path: Path) -> NotebookNode:
    with _one_sentence_errors(path):
        notebook: NotebookNode = nbformat.reads(path.read_text("utf-8-sig"), as_version=4)
        return notebook


@contextlib.contextmanager
def _one_sentence_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise _NoNotebookError(
            f"{path} is not there. `make fresh UNIT={path.stem}` creates it."
        ) from None
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError):
        raise _NoNotebookError(
            f"{path} is damaged: it is not a complete notebook. `make fresh UNIT={path.stem}` "
            "makes a new one and keeps the damaged file."
        ) from None


def unit_and_cell(unit: str, cell: str) -> tuple[str, str]:
    """Unit and cell; a cell's id alone, as ``u00-state-gib``, names its unit too."""
    if not cell and re.fullmatch(r"u\d\d-.+", unit):
        return unit[1:3], unit
    return unit, cell


def print_what_is_kept(kept: Path | None) -> None:
    """Say where the notebook is that a fresh one has replaced."""
    old = f"the old notebook is kept: {kept}" if kept else "there was no old notebook."
    print(f"Done; {old}")
    print("If it is open in JupyterLab: File, Reload Notebook from Disk.")
