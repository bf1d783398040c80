"""What nbgrader's gradebook cannot hold, in a table of its own in the same file.

That is the release of each unit that counts, grades and comments of exercises that a release took
out, and extensions of students who have not handed in. A change of them and of grades is one
transaction, and a copy of the gradebook holds them too.
"""

import json
from typing import Any, NamedTuple

from nbgrader.api import Comment, Grade, Gradebook, SubmittedNotebook
from sqlalchemy import text

TABLE = """
create table if not exists course_beside_grades (
    kind text, unit text, student text, name text, content text,
    primary key (kind, unit, student, name)
)
"""
ENTRY = "kind = :kind and unit = :unit and student = :student and name = :name"
RELEASE, EXTENSION = "release", "extension"


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


def promised_days(book: Gradebook, unit: str) -> dict[str, float]:
    """Days of extension by student, of those whose submission is not in the gradebook."""
    query = "select student, content from course_beside_grades where kind = :kind and unit = :unit"
    found = _found(book, query, kind=EXTENSION, unit=unit)
    return {student: json.loads(told) for student, told in found}


def promise_days(book: Gradebook, unit: str, student: str, days: float) -> None:
    """Keep an extension until the submission is in the gradebook; 0 days are none."""
    _write(book, Place(EXTENSION, unit, student), days or None)


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
    return [name for (name,) in _found(book, query, unit=unit)]


def _place(row: Grade | Comment, submitted: SubmittedNotebook, cell: str) -> Place:
    return Place(type(row).__name__, submitted.assignment.name, submitted.student.id, cell)


def _read(book: Gradebook, place: Place) -> Any:
    query = f"select content from course_beside_grades where {ENTRY}"
    found = _found(book, query, **place._asdict())
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


def _found(book: Gradebook, query: str, **values: str) -> list[Any]:
    """What a query finds; nothing in a gradebook that has no such table yet."""
    is_there = "select 1 from sqlite_master where name = 'course_beside_grades'"
    if not book.db.execute(text(is_there)).fetchone():
        return []
    return list(book.db.execute(text(query), values))
