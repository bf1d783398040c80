"""Write grades into nbgrader's gradebook and graded notebooks into `autograded/`.

nbgrader's own preprocessors read the grades from the notebook, so that they are what nbgrader would
have given. Manual scores and comments stay unchanged. A run has one store, and only it writes.
"""

import contextlib
import hashlib
import os
import re
import sqlite3
import sys
import warnings
from collections.abc import Callable, Collection, Iterator
from datetime import datetime, timedelta
from pathlib import Path

import nbformat
from nbconvert.exporters.exporter import ResourcesDict
from nbformat import NotebookNode
from nbgrader.api import Base, Gradebook, MissingEntry, SubmittedAssignment
from nbgrader.preprocessors import AssignLatePenalties, SaveAutoGrades
from nbgrader.utils import parse_utc
from sqlalchemy.exc import DatabaseError, OperationalError, SAWarning
from traitlets.config import Config

from autograder.cells import cell_key, is_solution, nbgrader_metadata
from autograder.files import read_line, replacing, write_whole
from autograder.grading import beside_grades, lateness, timestamp, unit_in_gradebook
from autograder.grading.errors import GradingError
from autograder.grading.intake.merge import is_added
from autograder.grading.release.archive import Form
from autograder.grading.release.difference import exercise_of
from autograder.grading.result import SubmissionResult
from autograder.grading.standings import Standing, standings
from autograder.grading.task import GradedSubmission

NUM_BACKUPS = 10
SECRET_FILE = "submission_secret.txt"
SECRET = re.compile(r"[0-9a-f]{128}")

Settled = dict[str, float | None]  # automatic points of cells that a person has judged


class GradebookWriter:
    """The gradebook and the graded notebooks of a course."""

    def __init__(self, root: Path, config: Config, secret: str) -> None:
        """Take a course's folder, its nbgrader configuration and its secret."""
        self.root, self._config, self._secret = root, config, secret
        self._course = config.CourseDirectory.course_id
        self.gradebook = root / "gradebook.db"
        self._book: Gradebook | None = None
        self.url = f"sqlite:///{self.gradebook}"

    def check(self, unit: str, release: NotebookNode) -> None:
        """Check that grades of a unit in the form of a release fit into the gradebook.

        Raises:
            GradingError: If not; the message says what to do.
        """
        if not self.gradebook.exists():
            return
        with self._open() as book:
            if not unit_in_gradebook.knows(book, unit):
                return
            if changes := unit_in_gradebook.changes(book, unit, release):
                raise GradingError(
                    f"{unit} has changed since the gradebook learned it ({changes}). `make release "
                    f"UNIT={unit[:2]}` takes it as it is now and keeps all grades by exercise."
                )

    def release_of(self, unit: str) -> int:
        """Number of the release of a unit whose form the gradebook has; 0 if there is none."""
        if not self.gradebook.exists():
            return 0
        self._check_tables()
        with self._open() as book:
            return beside_grades.release_of(book, unit)

    def knows(self, unit: str) -> bool:
        """Whether the gradebook has the cells of a unit."""
        with self._open() as book:
            return unit_in_gradebook.knows(book, unit)

    def take(self, unit: str, form: Form, keep: Callable[[], int]) -> int:
        """Let the gradebook take the cells of a unit as they are in a form: a release counts.

        Args:
            unit: The unit's folder name.
            form: The form.
            keep: Keeps the form and returns its number as a release; called before the switch.

        Raises:
            GradingError: If the two notebooks of the form do not fit together.
        """
        with self._open() as book:
            if unit_in_gradebook.knows(book, unit):
                self.back_up()
            with _in_one_transaction(book):
                instructor = nbformat.reads(form.instructor, as_version=4)
                unit_in_gradebook.learn(book, unit, instructor, self._config)
                if changes := unit_in_gradebook.changes(book, unit, form.notebook):
                    raise GradingError(
                        f"The notebooks of {unit} in solutions/ and in notebooks/ are of two "
                        f"builds ({changes}): run `make build UNIT={unit[:2]}`, then again."
                    )
                number = keep()
                beside_grades.set_release(book, unit, number)
        return number

    def _check_tables(self) -> None:
        """Check that the gradebook has the tables of this version of nbgrader."""
        tables = Base.metadata.sorted_tables
        wanted = {(table.name, column.name) for table in tables for column in table.columns}
        query = "select t.name, c.name from sqlite_master t, pragma_table_info(t.name) c"
        with self.one_sentence_errors(), _connected(self.gradebook) as (book,):
            found = set(book.execute(query))
        if found and wanted - found:
            raise GradingError(
                f"{self.gradebook} was made by an older nbgrader: run `nbgrader db upgrade`, then "
                "grade again."
            )

    def deadlines(self, unit: str) -> Callable[[str], str]:
        """A function that gives a student's deadline and extension for a unit, as text."""
        with self._open() as book:
            common = book.find_assignment(unit).duedate
            promised = beside_grades.promised_days(book, unit)
            extensions = {who: timedelta(days=days) for who, days in promised.items()}
            for each in book.assignment_submissions(unit):
                extensions[each.student_id] = each.extension
        return lambda student: f"{common} {extensions.get(student)}"

    def graded(self, unit: str) -> set[str]:
        """Students with a submission of a unit in the gradebook."""
        with self._open() as book:
            return {each.student_id for each in book.assignment_submissions(unit)}

    def waiting(self, unit: str) -> set[str]:
        """Students whose submission of a unit a person still has to read."""
        with self._open() as book:
            submissions = book.assignment_submissions(unit)
            return {each.student_id for each in submissions if each.needs_manual_grade}

    def standings(self, unit: str) -> list[Standing]:
        """How each student who handed in a unit stands; nobody where it is not known."""
        if not self.gradebook.exists():
            return []
        with self._open() as book:
            return standings(book, unit) if unit_in_gradebook.knows(book, unit) else []

    def set_aside(self, unit: str) -> set[str]:
        """Exercises that a release of a unit took out, whose grades are kept."""
        if not self.gradebook.exists():
            return set()
        with self._open() as book:
            return set(map(exercise_of, beside_grades.cells_set_aside(book, unit)))

    def due_date(self, unit: str) -> datetime | None:
        """When a unit was due, in UTC; None if that was never said."""
        if not self.gradebook.exists() or not self.knows(unit):
            return None
        with self._open() as book:
            due: datetime | None = book.find_assignment(unit).duedate
        return due

    def days_given(self) -> dict[str, dict[str, float]]:
        """Days of extension by student and unit."""
        if not self.gradebook.exists():
            return {}
        with self._open() as book:
            return lateness.days_given(book)

    def extend(self, unit: str, student: str, days: float) -> None:
        """Give a student days more for a unit, in place of those given before; 0 are none.

        Raises:
            GradingError: If the gradebook knows no such unit or student.
        """
        with self._open() as book, _in_one_transaction(book):
            lateness.extend(book, unit, student, days)

    def back_up(self) -> Path:
        """Copy the gradebook; keep the latest copies and the first of each of the last days."""
        folder = self.root / "gradebook_backups"
        copy = folder / f"gradebook-{datetime.now():%Y%m%d-%H%M%S-%f}.db"  # two runs a second
        with self.one_sentence_errors():
            folder.mkdir(exist_ok=True)
            with replacing(copy) as beside, _connected(self.gradebook, beside) as (book, kept):
                book.backup(kept)
            for old in _superfluous(sorted(folder.glob("gradebook-*.db"))):
                old.unlink(missing_ok=True)
        return copy

    def put(self, graded: GradedSubmission, submitted: Path) -> None:
        """Write a graded notebook into its folder and its grades into the gradebook."""
        result, time_line = graded.result, timestamp.text_of(submitted)
        with self._open() as book:
            settled = self._settled(book, graded)
            with warnings.catch_warnings(), _in_one_transaction(book):
                warnings.simplefilter("ignore", SAWarning)  # nbgrader's own; the rows are complete
                book.update_or_create_student(result.student)
                when = parse_utc(time_line) if time_line else None
                book.update_or_create_submission(result.unit, result.student, timestamp=when)
                lateness.grant_promised(book, result.unit, result.student)
                self._save_grades(book, graded)
                _leave_settled(book, result, settled)
            self._save_penalty(book.find_submission(result.unit, result.student))
            if result.for_a_person:
                _ask_for_a_person(book, result, settled)
        self._put_files(graded, submitted)  # last, since `_settled` compares with the file

    def renew_penalties(self, unit: str, students: Collection[str] | None = None) -> None:
        """Compute late penalties from the present points, those by people included."""
        with self._open() as book:
            for each in book.assignment_submissions(unit):
                if students is None or each.student_id in students:
                    self._save_penalty(each)

    def _settled(self, book: Gradebook, graded: GradedSubmission) -> Settled:
        """Cells whose manual points still hold: same answers of the student, same worth."""
        unit, student = graded.result.unit, graded.result.student
        path = self.root / "autograded" / student / unit / f"{unit}.ipynb"
        try:
            before, now = (
                nbformat.reads(text, as_version=4)
                for text in (path.read_text("utf-8"), graded.notebook)
            )
            if _has_other_answers(before, now):
                return {}
            same = {
                name for name, worth in _worth(now).items() if _worth(before).get(name) == worth
            }
            grades = book.find_submission_notebook(unit, unit, student).grades
        except (OSError, ValueError, KeyError, AttributeError, MissingEntry):
            return {}  # no graded notebook, or a damaged one
        return {
            each.name: each.auto_score
            for each in grades
            if each.manual_score is not None and not each.needs_manual_grade and each.name in same
        }

    def _put_files(self, graded: GradedSubmission, submitted: Path) -> None:
        result = graded.result
        folder = self.root / "autograded" / result.student / result.unit
        lines = {
            timestamp.NAME: timestamp.text_of(submitted),
            SECRET_FILE: self._submission_secret(result, submitted),
        }
        with self.one_sentence_errors():
            write_whole(folder / f"{result.unit}.ipynb", graded.notebook)
            for name, line in lines.items():
                if line:
                    write_whole(folder / name, line)
                else:
                    (folder / name).unlink(missing_ok=True)

    def _submission_secret(self, result: SubmissionResult, submitted: Path) -> str:
        """The secret that names a student's feedback in nbgrader's exchange, which requires one.

        `nbgrader submit` makes it; for other submissions it derives from the course's secret.
        """
        known = read_line(submitted / SECRET_FILE)
        whose = f"{self._secret}\0{result.student}\0{result.unit}"
        return known if SECRET.fullmatch(known) else hashlib.sha512(whose.encode()).hexdigest()

    def _save_grades(self, book: Gradebook, graded: GradedSubmission) -> None:
        """Have nbgrader take the points: a cell with none, a text, waits for a person's marks."""
        saving = SaveAutoGrades(config=self._config)
        saving.gradebook, saving.student_id = book, graded.result.student
        saving.assignment_id = saving.notebook_id = graded.result.unit
        notebook = nbformat.reads(graded.notebook, as_version=4)
        for position, cell in enumerate(notebook.cells):
            saving.preprocess_cell(cell, ResourcesDict(), position)

    def _save_penalty(self, submission: SubmittedAssignment) -> None:
        """Let nbgrader compute the late penalty of a submission that is late, or was."""
        if submission.total_seconds_late or submission.late_submission_penalty:
            unit, student = submission.assignment.name, submission.student_id
            names = {"notebook": unit, "assignment": unit, "student": student, "db_url": self.url}
            step = AssignLatePenalties(config=self._config)
            step.preprocess(nbformat.v4.new_notebook(), ResourcesDict(nbgrader=names))

    @contextlib.contextmanager
    def _open(self) -> Iterator[Gradebook]:
        """The gradebook, including what other processes have written meanwhile."""
        with self.one_sentence_errors():
            self._book = self._book or self._connect()
            try:
                yield self._book
            finally:
                self._book.db.remove()

    def _connect(self) -> Gradebook:
        path = os.environ.get("PATH", "")
        scripts = Path(sys.executable).parent  # a new gradebook runs `alembic` from there
        os.environ["PATH"] = f"{scripts}{os.pathsep}{path}"
        try:
            return Gradebook(self.url, self._course)
        finally:
            os.environ["PATH"] = path

    def close(self) -> None:
        """Close the gradebook."""
        if self._book is not None:
            self._book.close()
            self._book = None

    @contextlib.contextmanager
    def one_sentence_errors(self) -> Iterator[None]:
        """Turn errors of disk and gradebook into a `GradingError` of one sentence."""
        resume = "and run this again: it goes on where it was."
        try:
            yield
        except (OperationalError, sqlite3.OperationalError) as error:
            reason = str(getattr(error, "orig", error))
            if "locked" in reason:
                raise GradingError(
                    "The gradebook is held by another process. Close what uses it (formgrader, "
                    f"another grading run) {resume}"
                ) from None
            raise GradingError(
                f"{self.gradebook} cannot be used ({reason}). Fix that {resume}"
            ) from None
        except (DatabaseError, sqlite3.DatabaseError) as error:
            raise GradingError(
                f"{self.gradebook} is damaged ({getattr(error, 'orig', error)}). Put the last one "
                "of gradebook_backups in its place and grade with `--again`: the journal knows of "
                "grades that the copy lacks."
            ) from None
        except OSError as error:
            raise GradingError(
                f"{error.filename or self.root} cannot be used ({error.strerror}). Fix that "
                f"{resume}"
            ) from None


def _superfluous(copies: list[Path]) -> set[Path]:
    """Of copies sorted by time, those that are neither among the latest nor the first of a day."""
    first_of_day = {copy.name[: len("gradebook-20270301")]: copy for copy in reversed(copies)}
    firsts = sorted(first_of_day.values())
    return {*copies} - {*copies[-NUM_BACKUPS:]} - {*firsts[-NUM_BACKUPS:]}


@contextlib.contextmanager
def _connected(*paths: Path) -> Iterator[list[sqlite3.Connection]]:
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(contextlib.closing(sqlite3.connect(path))) for path in paths]


@contextlib.contextmanager
def _in_one_transaction(book: Gradebook) -> Iterator[None]:
    """Commit at once, or not at all, what nbgrader would commit cell by cell."""
    book.db.commit = book.db.flush
    try:
        yield
    finally:
        del book.db.commit
    book.db.commit()


def _has_other_answers(before: NotebookNode, now: NotebookNode) -> bool:
    """Whether a student wrote something else, in answers that both have or in cells of their own.

    What only the course changed, in its own cells or with an exercise more, is no other answer.
    """
    old, new = _answers(before), _answers(now)
    return _added(before) != _added(now) or any(old.get(key, new[key]) != new[key] for key in new)


def _answers(notebook: NotebookNode) -> dict[str, str]:
    return {cell_key(cell): cell.source for cell in notebook.cells if is_solution(cell)}


def _added(notebook: NotebookNode) -> list[str]:
    return [cell.source for cell in notebook.cells if is_added(cell)]


def _worth(notebook: NotebookNode) -> dict[str, float]:
    graded = (nbgrader_metadata(cell) for cell in notebook.cells)
    return {each["grade_id"]: each["points"] for each in graded if each.get("grade")}


def _leave_settled(book: Gradebook, result: SubmissionResult, settled: Settled) -> None:
    """Request no manual grade for cells whose text and automatic points are unchanged."""
    for each in book.find_submission_notebook(result.unit, result.unit, result.student).grades:
        if each.name in settled and each.auto_score == settled[each.name]:
            each.needs_manual_grade = False


def _ask_for_a_person(book: Gradebook, result: SubmissionResult, settled: Settled) -> None:
    """Request a manual grade where no person has judged a cell in its present form.

    Of all cells, or of those alone whose check has failed.
    """
    for each in book.find_submission_notebook(result.unit, result.unit, result.student).grades:
        is_settled = each.name in settled and each.auto_score == settled[each.name]
        if result.needs_human or exercise_of(each.name) in result.unjudged:
            each.needs_manual_grade = not is_settled
    book.db.commit()
