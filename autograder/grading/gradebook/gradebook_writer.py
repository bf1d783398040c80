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
from datetime import datetime
from pathlib import Path
from typing import Any

import nbformat
from nbconvert.exporters.exporter import ResourcesDict
from nbformat import NotebookNode
from nbgrader.api import Base, Grade, Gradebook, MissingEntry
from nbgrader.preprocessors import AssignLatePenalties, SaveAutoGrades
from nbgrader.utils import parse_utc
from sqlalchemy import select
from sqlalchemy.exc import DatabaseError, OperationalError, SAWarning
from traitlets.config import Config

from autograder.cells import cell_key, is_solution, nbgrader_metadata
from autograder.files import read_line, replacing, write_whole
from autograder.grading.errors import GradingError
from autograder.grading.gradebook import course_table, timestamp, unit_in_gradebook
from autograder.grading.gradebook.grade_key import Key
from autograder.grading.gradebook.submission_status import SubmissionStatus, statuses
from autograder.grading.release.archive import Form
from autograder.grading.release.difference import exercise_of
from autograder.grading.result import SubmissionResult
from autograder.grading.run.submission import GradedSubmission
from autograder.student_notebook import is_added

NUM_BACKUPS = 10
SECRET_FILE = "submission_secret.txt"
SECRET = re.compile(r"[0-9a-f]{128}")

Judged = dict[str, Any]
Settled = dict[str, float | None]  # automatic points of cells that a person has judged


class GradebookWriter:
    """The gradebook and the graded notebooks of a course."""

    def __init__(self, root: Path, config: Config, secret: str) -> None:
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
        with self._open() as book:
            for table in Base.metadata.sorted_tables:  # an older nbgrader had fewer columns
                book.db.execute(select(table).limit(0))
            return course_table.release_of(book, unit)

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
                course_table.set_release(book, unit, number)
        return number

    def deadlines(self, unit: str) -> Callable[[str], str]:
        """A function that gives a student's deadline and extension for a unit, as text."""
        with self._open() as book:
            common = book.find_assignment(unit).duedate
            submissions = book.assignment_submissions(unit)
            extensions = {each.student_id: each.extension for each in submissions}
        return lambda student: f"{common} {extensions.get(student)}"

    def keys(self, unit: str) -> dict[str, Key]:
        """From what the grades of a unit were made, by student."""
        with self._open() as book:
            return course_table.keys(book, unit)

    def results(self, unit: str) -> dict[str, SubmissionResult]:
        """The last results of a unit, by student."""
        with self._open() as book:
            return course_table.results(book.db, unit)

    def waiting(self, unit: str) -> set[str]:
        """Students whose submission of a unit a person still has to read."""
        with self._open() as book:
            submissions = book.assignment_submissions(unit)
            return {each.student_id for each in submissions if each.needs_manual_grade}

    def statuses(self, unit: str) -> list[SubmissionStatus]:
        """How each student who handed in a unit stands; nobody where it is not known."""
        if not self.gradebook.exists():
            return []
        with self._open() as book:
            return statuses(book, unit) if unit_in_gradebook.knows(book, unit) else []

    def set_aside(self, unit: str) -> set[str]:
        """Exercises that a release of a unit took out, whose grades are kept."""
        if not self.gradebook.exists():
            return set()
        with self._open() as book:
            return set(map(exercise_of, course_table.cells_set_aside(book, unit)))

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

    def put(self, graded: GradedSubmission, submitted: Path, key: Key) -> None:
        """Write a graded notebook into its folder, and all of its grade in one transaction.

        Args:
            graded: The graded submission.
            submitted: Its folder.
            key: What its grade depends on.
        """
        result, time_line = graded.result, timestamp.text_of(submitted)
        notebook = nbformat.reads(graded.notebook, as_version=4)
        with self._open() as book, warnings.catch_warnings(), _in_one_transaction(book):
            warnings.simplefilter("ignore", SAWarning)  # nbgrader's own; the rows are complete
            settled = _settled(book, result, now := _judged(notebook))
            book.update_or_create_student(result.student)
            when = parse_utc(time_line) if time_line else None
            book.update_or_create_submission(result.unit, result.student, timestamp=when)
            self._save_grades(book, result, notebook)
            _ask_people(book, result, settled)
            self._save_penalty(book, result.unit, result.student)
            course_table.record(book, result, key if graded.is_final else None, now)
            book.db.flush()
            self._put_files(graded, submitted)  # with what is committed, the run goes on after it

    def renew_penalties(self, unit: str, students: Collection[str]) -> None:
        """Compute late penalties from the present points, those by people included."""
        with self._open() as book, _in_one_transaction(book):
            for student in students:
                self._save_penalty(book, unit, student)

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

    def _save_grades(self, book: Gradebook, result: SubmissionResult, now: NotebookNode) -> None:
        """Have nbgrader take the points: a cell with none, a text, waits for a person's marks."""
        saving = SaveAutoGrades(config=self._config)
        saving.gradebook, saving.student_id = book, result.student
        saving.assignment_id = saving.notebook_id = result.unit
        for position, cell in enumerate(now.cells):
            saving.preprocess_cell(cell, ResourcesDict(), position)

    def _save_penalty(self, book: Gradebook, unit: str, student: str) -> None:
        """The late penalty by the rule that nbgrader has been given, as nbgrader computes it."""
        book.db.flush()
        book.db.expire_all()  # the sums of points
        notebook = book.find_submission_notebook(unit, unit, student)
        seconds, penalty = notebook.assignment.total_seconds_late, None
        if seconds > 0:
            step = AssignLatePenalties(config=self._config)
            step.init_plugin()
            penalty = step.plugin_inst.late_submission_penalty(student, notebook.score, seconds)
        if penalty is not None:
            penalty = min(max(penalty, 0), notebook.score)
        notebook.late_submission_penalty = penalty

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
            if "no such column" in reason:
                raise GradingError(
                    f"{self.gradebook} was made by an older nbgrader: run `nbgrader db upgrade`, "
                    "then grade again."
                ) from None
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
                "of gradebook_backups in its place and run this again: it grades what is missing."
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


def _judged(notebook: NotebookNode) -> Judged:
    """What people may judge: answers, cells of the student's own, and what an answer is worth."""
    graded = (nbgrader_metadata(cell) for cell in notebook.cells)
    return {
        "answers": {cell_key(cell): cell.source for cell in notebook.cells if is_solution(cell)},
        "added": [cell.source for cell in notebook.cells if is_added(cell)],
        "worth": {each["grade_id"]: each["points"] for each in graded if each.get("grade")},
    }


def _settled(book: Gradebook, result: SubmissionResult, now: Judged) -> Settled:
    """Cells whose manual points still hold: same answers of the student, same worth.

    What only the course changed, in its own cells or with an exercise more, is no other answer.
    """
    before = course_table.judged(book, result.unit, result.student)
    if not before or before["added"] != now["added"]:
        return {}
    old, worth = before["answers"], before["worth"]
    if any(old.get(name, text) != text for name, text in now["answers"].items()):
        return {}
    return {
        each.name: each.auto_score
        for each in _grades(book, result)
        if each.manual_score is not None and not each.needs_manual_grade
        if worth.get(each.name) == now["worth"].get(each.name)
    }


def _ask_people(book: Gradebook, result: SubmissionResult, settled: Settled) -> None:
    """Request a manual grade of what nobody has judged in its present form, and of nothing else.

    Where the whole submission needs a person, or a check has failed, it is requested too.
    """
    for each in _grades(book, result):
        is_settled = each.name in settled and each.auto_score == settled[each.name]
        if is_settled:
            each.needs_manual_grade = False
        elif result.needs_human or exercise_of(each.name) in result.unjudged:
            each.needs_manual_grade = True


def _grades(book: Gradebook, result: SubmissionResult) -> list[Grade]:
    try:
        found = book.find_submission_notebook(result.unit, result.unit, result.student)
    except MissingEntry:
        return []
    return list(found.grades)
