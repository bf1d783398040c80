"""The one writer: grades into nbgrader's gradebook, graded notebooks into `autograded/`.

Grades are read from the notebook by nbgrader's own preprocessors, so that they are what it would
have made of it; manual scores and comments stay as they are.
"""

import contextlib
import re
import secrets
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

import nbformat
from nbconvert.exporters.exporter import ResourcesDict
from nbformat import NotebookNode
from nbgrader.api import Gradebook, MissingEntry
from nbgrader.preprocessors import AssignLatePenalties, SaveAutoGrades
from nbgrader.utils import parse_utc
from sqlalchemy.exc import OperationalError
from traitlets.config import Config

from course_utils.desk.transplant import grader, key
from course_utils.grading.errors import GradingError
from course_utils.grading.files import write_whole
from course_utils.grading.task import Graded

HIDDEN_TESTS = "### BEGIN HIDDEN TESTS"
NUM_BACKUPS = 10
SECRET_FILE = "submission_secret.txt"
SECRET = re.compile(r"[0-9a-f]{128}")


class Store:
    """The gradebook and the graded notebooks of a course."""

    def __init__(self, root: Path, config: Config) -> None:
        """Stand in a course's folder with its nbgrader configuration."""
        self.root, self._config = root, config
        self._course = config.CourseDirectory.course_id
        self.gradebook = root / "gradebook.db"
        self.url = f"sqlite:///{self.gradebook}"

    def check(self, unit: str, release: NotebookNode) -> None:
        """Stop if the gradebook lacks a unit or has it in another form than its release.

        Raises:
            GradingError: With what to do.
        """
        again = f"Run `nbgrader generate_assignment {unit} --force`, then grade again."
        if not self.gradebook.exists():
            raise GradingError(f"There is no gradebook yet. {again}")
        with self._open() as book:
            try:
                known = book.find_notebook(unit, unit)
            except MissingEntry:
                raise GradingError(f"The gradebook does not know {unit}. {again}") from None
            wanted = {
                key(cell): cell.source for cell in release.cells if grader(cell).get("locked")
            }
            came = {
                cell.name: (cell.source or "").split(HIDDEN_TESTS)[0].rstrip()
                for cell in known.source_cells
                if cell.name in wanted
            }
        if changed := sorted(name for name in wanted if came.get(name) != wanted[name].rstrip()):
            raise GradingError(
                f"{unit} has changed since the gradebook learned it ({', '.join(changed[:3])}). "
                f"{again}"
            )

    def back_up(self) -> Path:
        """Copy the gradebook as it is, and keep the last copies only."""
        folder = self.root / "gradebook_backups"
        folder.mkdir(exist_ok=True)
        copy = folder / f"gradebook-{time.strftime('%Y%m%d-%H%M%S')}.db"
        with (
            contextlib.closing(sqlite3.connect(self.gradebook)) as book,
            contextlib.closing(sqlite3.connect(copy)) as kept,
        ):
            book.backup(kept)
        for old in sorted(folder.glob("gradebook-*.db"))[:-NUM_BACKUPS]:
            old.unlink()
        return copy

    def put(self, graded: Graded, submitted: Path) -> None:
        """Put a graded notebook in its place and its grades into the gradebook."""
        notebook = nbformat.reads(graded.notebook, as_version=4)
        result = graded.result
        folder = self.root / "autograded" / result.student / result.unit
        stamp = _timestamp(submitted)
        write_whole(folder / f"{result.unit}.ipynb", graded.notebook)
        write_whole(folder / SECRET_FILE, _secret(submitted))
        if stamp:
            write_whole(folder / "timestamp.txt", stamp)
        with self._open() as book:
            book.update_or_create_student(result.student)
            when = {"timestamp": parse_utc(stamp)} if stamp else {}
            book.update_or_create_submission(result.unit, result.student, **when)
        self._save_grades(notebook, result.unit, result.student)
        if result.needs_human:
            self._ask_for_a_person(result.unit, result.student)

    def _save_grades(self, notebook: NotebookNode, unit: str, student: str) -> None:
        names = {"notebook": unit, "assignment": unit, "student": student, "db_url": self.url}
        for step in (SaveAutoGrades, AssignLatePenalties):
            step(config=self._config).preprocess(notebook, ResourcesDict(nbgrader=names))

    def _ask_for_a_person(self, unit: str, student: str) -> None:
        with self._open() as book:
            for notebook in book.find_submission(unit, student).notebooks:
                for each in notebook.grades:
                    each.needs_manual_grade = True
            book.db.commit()

    @contextlib.contextmanager
    def _open(self) -> Iterator[Gradebook]:
        with self.sentences(), Gradebook(self.url, self._course) as book:
            yield book

    @contextlib.contextmanager
    def sentences(self) -> Iterator[None]:
        """Trouble with disk and gradebook in one sentence each."""
        try:
            yield
        except OperationalError as error:
            if "locked" not in str(error):
                raise
            raise GradingError(
                "The gradebook is held by another process. Close what uses it (formgrader, another "
                "grading run) and run this again: it goes on where it was."
            ) from None
        except OSError as error:
            raise GradingError(
                f"{error.filename or self.root} cannot be written ({error.strerror}). Mend that "
                "and run this again: it goes on where it was."
            ) from None


def _timestamp(submitted: Path) -> str:
    """When it was handed in, as nbgrader reads it, or nothing if that is not said readably."""
    try:
        text = (submitted / "timestamp.txt").read_text(encoding="utf-8").strip()
        parse_utc(text)
    except (OSError, ValueError, OverflowError):
        return ""
    return text


def _secret(submitted: Path) -> str:
    """What names a student's feedback in nbgrader's exchange, which stops where there is none.

    `nbgrader submit` makes it; to what came in another way no name is known, and a new one does.
    """
    file = submitted / SECRET_FILE
    with contextlib.suppress(OSError, ValueError):
        is_short = file.is_file() and not file.is_symlink() and file.stat().st_size < 200
        if is_short and SECRET.fullmatch(text := file.read_text(encoding="utf-8")):
            return text
    return secrets.token_hex(64)
