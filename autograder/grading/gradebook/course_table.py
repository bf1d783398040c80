"""What nbgrader's gradebook cannot hold, in a table of its own in the same file.

That is the release of each unit that counts, grades and comments of exercises that a release took
out, and of each graded submission the result, what it was graded from and what of it people may
have judged. A change of them and of grades is one transaction, and a copy of the gradebook holds
them too.
"""

import contextlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from nbgrader.api import Comment, Grade, Gradebook, SubmittedNotebook
from sqlalchemy import Connection, NullPool, create_engine, text
from sqlalchemy.exc import DatabaseError
from sqlalchemy.orm import Session

from autograder.grading.errors import GradingError
from autograder.grading.gradebook.grade_key import Key
from autograder.grading.result import SubmissionResult

TABLE = """
create table if not exists course_beside_grades (
    kind text, unit text, student text, name text, content text,
    primary key (kind, unit, student, name)
)
"""
BUSY_SECONDS = 10  # how long a writer waits for another one
ENTRY = "kind = :kind and unit = :unit and student = :student and name = :name"
OF_UNIT = "select student, content from course_beside_grades where kind = :kind and unit = :unit"
# A student who was removed from the gradebook has no result in it.
OF_GRADED = f"""
{OF_UNIT} and student in (
    select student_id from submitted_assignment s join assignment a on a.id = s.assignment_id
    where a.name = :unit
) order by student
"""
RELEASE, RESULT, KEY, JUDGED = "release", "result", "key", "judged"


class Place(NamedTuple):
    """What an entry is about."""

    kind: str
    unit: str
    student: str = ""
    name: str = ""


COLUMNS = {
    Grade: ("auto_score", "manual_score", "extra_credit", "needs_manual_grade"),
    Comment: ("auto_comment", "manual_comment"),
}


def release_of(book: Gradebook, unit: str) -> int:
    """Number of the release of a unit that counts; 0 if none was made."""
    return int(_read(book, Place(RELEASE, unit)) or 0)


def set_release(book: Gradebook, unit: str, number: int) -> None:
    """Make another release of a unit count."""
    _write(book, Place(RELEASE, unit), number)


def record(
    book: Gradebook, result: SubmissionResult, key: Key | None, judged: Mapping[str, Any]
) -> None:
    """Keep the result of a submission.

    Args:
        book: The gradebook.
        result: The result.
        key: What it depends on; None if the next run shall grade the submission again.
        judged: What of it people may judge.
    """
    for kind, content in {RESULT: result.to_json(), KEY: key, JUDGED: judged}.items():
        _write(book, Place(kind, result.unit, result.student), content)


def results(book: Connection | Session, unit: str) -> dict[str, SubmissionResult]:
    """The last result of every student, in the order of their ids."""
    rows = _found(book, OF_GRADED, kind=RESULT, unit=unit)
    return {student: SubmissionResult.from_json(json.loads(told)) for student, told in rows}


def keys(book: Gradebook, unit: str) -> dict[str, Key]:
    """By student, from what the grade in the gradebook was made."""
    rows = _found(book.db, OF_GRADED, kind=KEY, unit=unit)
    return {student: Key(*json.loads(told)) for student, told in rows}


def judged(book: Gradebook, unit: str, student: str) -> Any:
    """What of a submission people may have judged; None if it was never graded."""
    return _read(book, Place(JUDGED, unit, student))


def results_of(root: Path, unit: str) -> list[SubmissionResult]:
    """The last result of every student of a course, in the order of their ids.

    Raises:
        GradingError: If nothing of the unit was graded, or the gradebook cannot be read.
    """
    with transaction(root) as book:
        found = list(results(book, unit).values())
    if not found:
        raise GradingError(
            f"The gradebook holds no result of {unit}: `make grade UNIT={unit[:2]}` makes it."
        )
    return found


def graded_units(root: Path) -> set[str]:
    """Folders of the units of which something was graded."""
    query = "select distinct unit from course_beside_grades where kind = :kind"
    if not (root / "gradebook.db").exists():
        return set()
    with transaction(root) as book:
        return {unit for (unit,) in _found(book, query, kind=RESULT)}


@contextlib.contextmanager
def transaction(root: Path) -> Iterator[Connection]:
    """The gradebook of a course, read or written in one transaction.

    Raises:
        GradingError: If there is none, or it cannot be used.
    """
    path = root / "gradebook.db"
    if not path.exists():
        raise GradingError("There is no gradebook yet: `make grade UNIT=…` makes it.")
    timeout = {"timeout": BUSY_SECONDS}
    engine = create_engine(f"sqlite:///{path}", poolclass=NullPool, connect_args=timeout)
    try:
        with engine.begin() as book:
            yield book
    except DatabaseError as error:
        raise GradingError(
            f"The gradebook cannot be used now ({error.orig}), so nothing was written. Wait for a "
            "grading run to end, then do it again."
        ) from None


def set_aside(book: Gradebook, row: Grade | Comment) -> None:
    """Keep a grade or comment whose cell goes."""
    told = {name: getattr(row, name) for name in COLUMNS[type(row)]}
    if any(value is not None for name, value in told.items() if name != "needs_manual_grade"):
        _write(book, _place(row, row.notebook, row.cell.name), told)


def bring_back(
    book: Gradebook, row: Grade | Comment, submitted: SubmittedNotebook, cell: str
) -> None:
    """Put into a new row what was set aside of it, if anything was."""
    place = _place(row, submitted, cell)
    for name, value in (_read(book, place) or {}).items():
        setattr(row, name, value)
    _write(book, place, None)


def cells_set_aside(book: Gradebook, unit: str) -> list[str]:
    """Cells whose grades are set aside."""
    query = "select distinct name from course_beside_grades where kind = 'Grade' and unit = :unit"
    return [name for (name,) in _found(book.db, query, unit=unit)]


def _place(row: Grade | Comment, submitted: SubmittedNotebook, cell: str) -> Place:
    return Place(type(row).__name__, submitted.assignment.name, submitted.student.id, cell)


def _read(book: Gradebook, place: Place) -> Any:
    query = f"select content from course_beside_grades where {ENTRY}"
    found = _found(book.db, query, **place._asdict())
    return next((json.loads(told) for (told,) in found), None)


def _write(book: Gradebook, place: Place, content: Any) -> None:
    """Write an entry in place of the one before; none removes it."""
    values = place._asdict()
    book.db.execute(text(TABLE))
    book.db.execute(text(f"delete from course_beside_grades where {ENTRY}"), values)
    if content is not None:
        query = (
            "insert into course_beside_grades (kind, unit, student, name, content) "
            "values (:kind, :unit, :student, :name, :content)"
        )
        book.db.execute(text(query), values | {"content": json.dumps(content)})


def _found(book: Connection | Session, query: str, **values: str) -> list[Any]:
    """What a query finds; nothing in a gradebook that has no such table yet."""
    is_there = "select 1 from sqlite_master where name = 'course_beside_grades'"
    if not book.execute(text(is_there)).fetchone():
        return []
    return list(book.execute(text(query), values))
