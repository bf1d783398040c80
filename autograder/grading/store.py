"""The one writer: grades into nbgrader's gradebook, graded notebooks into `autograded/`.

Grades are read from the notebook by nbgrader's own preprocessors, so that they are what it would
have made of it; manual scores and comments stay as they are.
"""

import contextlib
import hashlib
import re
import sqlite3
import time
import warnings
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

import nbformat
from nbconvert.exporters.exporter import ResourcesDict
from nbformat import NotebookNode
from nbgrader.api import Base, Gradebook, MissingEntry, SubmittedAssignment
from nbgrader.preprocessors import AssignLatePenalties, SaveAutoGrades
from nbgrader.utils import parse_utc
from sqlalchemy.exc import DatabaseError, OperationalError, SAWarning
from traitlets.config import Config

from autograder.files import line_of, whole, write_whole
from autograder.grading import timestamp
from autograder.grading.errors import GradingError
from autograder.grading.result import Result
from autograder.grading.task import Graded
from autograder.student.merge_answers import grader, key

HIDDEN_TESTS = "### BEGIN HIDDEN TESTS"
NUM_BACKUPS = 10
SECRET_FILE = "submission_secret.txt"
SECRET = re.compile(r"[0-9a-f]{128}")

Settled = dict[str, float | None]  # automatic points by cell


class Store:
    """The gradebook and the graded notebooks of a course."""

    def __init__(self, root: Path, config: Config, secret: str) -> None:
        """Stand in a course's folder with its nbgrader configuration and its secret."""
        self.root, self._config, self._secret = root, config, secret
        self._course = config.CourseDirectory.course_id
        self.gradebook = root / "gradebook.db"
        self._book: Gradebook | None = None
        self.url = f"sqlite:///{self.gradebook}"

    def check(self, unit: str, release: NotebookNode) -> None:
        """Stop if the gradebook lacks a unit or has it in another form than its release.

        Raises:
            GradingError: With what to do.
        """
        again = f"Run `nbgrader generate_assignment {unit} --force`, then grade again."
        if not self.gradebook.exists():
            raise GradingError(f"There is no gradebook yet. {again}")
        self._check_tables()
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
            most = {cell.name: cell.max_score for cell in known.grade_cells}
        changed = {name for name in wanted if came.get(name) != wanted[name].rstrip()}
        points = _points(release)
        changed |= {name for name in points if most.get(name) != points[name]}
        if changed:
            some = ", ".join(sorted(changed)[:3])
            raise GradingError(
                f"{unit} has changed since the gradebook learned it ({some}). {again}"
            )

    def _check_tables(self) -> None:
        """Stop before a gradebook of an older nbgrader, which has other tables."""
        tables = Base.metadata.sorted_tables
        wanted = {(table.name, column.name) for table in tables for column in table.columns}
        told = "select t.name, c.name from sqlite_master t, pragma_table_info(t.name) c"
        with self.in_one_sentence(), _connected(self.gradebook) as (book,):
            came = set(book.execute(told))
        if came and wanted - came:
            raise GradingError(
                f"{self.gradebook} was made by an older nbgrader: run `nbgrader db upgrade`, then "
                "grade again."
            )

    def deadlines(self, unit: str) -> Callable[[str], str]:
        """What says until when a student may hand in a unit, an extension included."""
        with self._open() as book:
            common = book.find_assignment(unit).duedate
            longer = {each.student_id: each.extension for each in book.assignment_submissions(unit)}
        return lambda student: f"{common} {longer.get(student)}"

    def graded(self, unit: str) -> set[str]:
        """Students of whom the gradebook holds a submission of a unit."""
        with self._open() as book:
            return {each.student_id for each in book.assignment_submissions(unit)}

    def waiting(self, unit: str) -> set[str]:
        """Students of whose submission of a unit a person still has something to read."""
        with self._open() as book:
            every = book.assignment_submissions(unit)
            return {each.student_id for each in every if each.needs_manual_grade}

    def back_up(self) -> Path:
        """Copy the gradebook as it is; keep the last copies, and the first of each last day."""
        folder = self.root / "gradebook_backups"
        copy = folder / f"gradebook-{time.strftime('%Y%m%d-%H%M%S')}.db"
        with self.in_one_sentence():
            folder.mkdir(exist_ok=True)
            with whole(copy) as beside, _connected(self.gradebook, beside) as (book, kept):
                book.backup(kept)
            for old in _superfluous(sorted(folder.glob("gradebook-*.db"))):
                old.unlink(missing_ok=True)
        return copy

    def put(self, graded: Graded, submitted: Path) -> None:
        """Put a graded notebook in its place and its grades into the gradebook."""
        result, time_line = graded.result, timestamp.text_of(submitted)
        with self._open() as book:
            settled = self._settled(book, graded)
            with warnings.catch_warnings(), _in_one_transaction(book):
                warnings.simplefilter("ignore", SAWarning)  # nbgrader's own; the rows are complete
                book.update_or_create_student(result.student)
                when = parse_utc(time_line) if time_line else None
                book.update_or_create_submission(result.unit, result.student, timestamp=when)
                self._save_grades(book, graded)
                _leave_settled(book, result, settled)
            self._save_penalty(book.find_submission(result.unit, result.student))
            if result.needs_human:
                _ask_for_a_person(book, result, settled)
        self._put_files(graded, submitted)  # last: what was stopped before this is not settled

    def renew_penalties(self, unit: str, students: Collection[str]) -> None:
        """Have what being late costs follow from the points as they are now, by people too."""
        with self._open() as book:
            for each in book.assignment_submissions(unit):
                if each.student_id in students:
                    self._save_penalty(each)

    def _settled(self, book: Gradebook, graded: Graded) -> Settled:
        """Where a person's points hold, if the notebook is the one to which they were given."""
        unit, student = graded.result.unit, graded.result.student
        path = self.root / "autograded" / student / unit / f"{unit}.ipynb"
        try:
            if _texts(path.read_text("utf-8")) != _texts(graded.notebook):
                return {}
            grades = book.find_submission_notebook(unit, unit, student).grades
        except (OSError, ValueError, KeyError, AttributeError, MissingEntry):
            return {}  # there is none, or it is damaged
        return {
            each.name: each.auto_score
            for each in grades
            if each.manual_score is not None and not each.needs_manual_grade
        }

    def _put_files(self, graded: Graded, submitted: Path) -> None:
        result = graded.result
        folder = self.root / "autograded" / result.student / result.unit
        lines = {
            timestamp.NAME: timestamp.text_of(submitted),
            SECRET_FILE: self._name_of_feedback(result, submitted),
        }
        with self.in_one_sentence():
            write_whole(folder / f"{result.unit}.ipynb", graded.notebook)
            for name, line in lines.items():
                if line:
                    write_whole(folder / name, line)
                else:
                    (folder / name).unlink(missing_ok=True)

    def _name_of_feedback(self, result: Result, submitted: Path) -> str:
        """What names a student's feedback in nbgrader's exchange, which stops where there is none.

        `nbgrader submit` makes it; for what came in another way it follows from the secret.
        """
        known = line_of(submitted / SECRET_FILE)
        whose = f"{self._secret}\0{result.student}\0{result.unit}"
        return known if SECRET.fullmatch(known) else hashlib.sha512(whose.encode()).hexdigest()

    def _save_grades(self, book: Gradebook, graded: Graded) -> None:
        saving = SaveAutoGrades(config=self._config)
        saving.gradebook, saving.student_id = book, graded.result.student
        saving.assignment_id = saving.notebook_id = graded.result.unit
        notebook = nbformat.reads(graded.notebook, as_version=4)
        for position, cell in enumerate(notebook.cells):
            saving.preprocess_cell(cell, ResourcesDict(), position)

    def _save_penalty(self, submission: SubmittedAssignment) -> None:
        """Have nbgrader say what being late costs, where it is late or was."""
        if submission.total_seconds_late or submission.late_submission_penalty:
            unit, student = submission.assignment.name, submission.student_id
            names = {"notebook": unit, "assignment": unit, "student": student, "db_url": self.url}
            step = AssignLatePenalties(config=self._config)
            step.preprocess(nbformat.v4.new_notebook(), ResourcesDict(nbgrader=names))

    @contextlib.contextmanager
    def _open(self) -> Iterator[Gradebook]:
        """The gradebook; what others have written meanwhile is seen."""
        with self.in_one_sentence():
            self._book = self._book or Gradebook(self.url, self._course)
            try:
                yield self._book
            finally:
                self._book.db.remove()

    def close(self) -> None:
        """Let the gradebook go."""
        if self._book is not None:
            self._book.close()
            self._book = None

    @contextlib.contextmanager
    def in_one_sentence(self) -> Iterator[None]:
        """Trouble with disk and gradebook in one sentence each."""
        onwards = "and run this again: it goes on where it was."
        try:
            yield
        except (OperationalError, sqlite3.OperationalError) as error:
            reason = str(getattr(error, "orig", error))
            if "locked" in reason:
                raise GradingError(
                    "The gradebook is held by another process. Close what uses it (formgrader, "
                    f"another grading run) {onwards}"
                ) from None
            raise GradingError(
                f"{self.gradebook} cannot be used ({reason}). Mend that {onwards}"
            ) from None
        except (DatabaseError, sqlite3.DatabaseError) as error:
            raise GradingError(
                f"{self.gradebook} is damaged ({getattr(error, 'orig', error)}). Put the last one "
                "of gradebook_backups in its place and grade with `--again`: the journal knows of "
                "grades that the copy lacks."
            ) from None
        except OSError as error:
            raise GradingError(
                f"{error.filename or self.root} cannot be used ({error.strerror}). Mend that "
                f"{onwards}"
            ) from None


def _superfluous(copies: list[Path]) -> set[Path]:
    """Of copies in the order of their times: neither one of the last nor the first of a day."""
    first_of_day = {copy.name[: len("gradebook-20270301")]: copy for copy in reversed(copies)}
    firsts = sorted(first_of_day.values())
    return {*copies} - {*copies[-NUM_BACKUPS:]} - {*firsts[-NUM_BACKUPS:]}


@contextlib.contextmanager
def _connected(*paths: Path) -> Iterator[list[sqlite3.Connection]]:
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(contextlib.closing(sqlite3.connect(path))) for path in paths]


@contextlib.contextmanager
def _in_one_transaction(book: Gradebook) -> Iterator[None]:
    """What nbgrader commits cell by cell comes into the gradebook at once, or not at all."""
    book.db.commit = book.db.flush
    try:
        yield
    finally:
        del book.db.commit
    book.db.commit()


def _points(release: NotebookNode) -> dict[str, float]:
    """The points of each graded cell."""
    return {
        key(cell): float(grader(cell)["points"])
        for cell in release.cells
        if grader(cell).get("grade")
    }


def _texts(notebook: str) -> list[str]:
    return [cell.source for cell in nbformat.reads(notebook, as_version=4).cells]


def _leave_settled(book: Gradebook, result: Result, settled: Settled) -> None:
    """Ask nobody again about a cell of which neither text nor automatic points have changed."""
    for each in book.find_submission_notebook(result.unit, result.unit, result.student).grades:
        if each.name in settled and each.auto_score == settled[each.name]:
            each.needs_manual_grade = False


def _ask_for_a_person(book: Gradebook, result: Result, settled: Settled) -> None:
    """Ask about every cell of a submission that no person has judged as it is now."""
    for each in book.find_submission_notebook(result.unit, result.unit, result.student).grades:
        is_settled = each.name in settled and each.auto_score == settled[each.name]
        each.needs_manual_grade = not is_settled
    book.db.commit()
