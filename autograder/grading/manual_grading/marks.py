"""Points and comments by people, in nbgrader's gradebook: read, and changed only as they were seen.

A change names the mark that its reader saw. One that has been changed since is left alone, together
with all that was to be changed with it, so that two readers at once lose nothing.
"""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from nbgrader.api import (
    Assignment,
    Comment,
    Grade,
    GradeCell,
    Notebook,
    SolutionCell,
    SubmittedAssignment,
    SubmittedNotebook,
)
from sqlalchemy import Connection, create_engine, func, select, update
from sqlalchemy.exc import DatabaseError
from sqlalchemy.pool import NullPool

from autograder.grading.errors import GradingError

BUSY_SECONDS = 10  # how long a writer waits for another one
MAX_CHARACTERS = 20_000  # of a comment


@dataclass(frozen=True)
class Mark:
    """What a person gave for an answer.

    Attributes:
        score: Points; None as long as nobody gave any.
        comment: In markdown; may be empty.
        waits: Whether nbgrader lists the answer as one that needs manual grading.
    """

    score: float | None
    comment: str
    waits: bool

    @classmethod
    def from_json(cls, entry: Any) -> "Mark":
        """The mark in a request.

        Raises:
            GradingError: If it is none.
        """
        match entry:
            case {"score": float() | int() | None as score, "comment": str(text), "waits": bool(w)}:
                if len(text) <= MAX_CHARACTERS and not isinstance(score, bool):
                    return cls(None if score is None else float(score), text, w)
        raise GradingError(f"A mark has points, a comment and `waits`; this is none: {entry!r}.")

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class Graded:
    """One answer of one student in the gradebook.

    Attributes:
        id: nbgrader's random id of the grade, which tells nothing of the student.
        submission: nbgrader's random id of the submitted notebook.
        cell: Name of the graded cell.
        comment_id: nbgrader's id of the comment on the answer.
        auto_score: Points by the grader; None where a person has to read.
    """

    id: str
    submission: str
    student: str
    cell: str
    max_points: float
    comment_id: str
    auto_score: float | None
    mark: Mark


@dataclass(frozen=True)
class Change:
    """A mark as it was seen, and as it shall be."""

    graded: Graded
    seen: Mark
    wanted: Mark


class ChangedMeanwhileError(RuntimeError):
    """Somebody else has changed a mark since it was seen; nothing was written."""


class Marks:
    """The marks in a course's gradebook."""

    def __init__(self, root: Path) -> None:
        self.path = root / "gradebook.db"
        self._engine = create_engine(
            f"sqlite:///{self.path}",
            poolclass=NullPool,
            connect_args={"timeout": BUSY_SECONDS},
        )

    def of_unit(self, unit: str) -> list[Graded]:
        """All answers of all students to the exercises of a unit.

        Raises:
            GradingError: If there is no gradebook, or it cannot be read.
        """
        with self._transaction() as book:
            comments = {row[:2]: row[2:] for row in book.execute(_of_unit(COMMENTS, unit))}
            grades = book.execute(_of_unit(GRADES, unit)).all()
        found = []
        for id_, submission, student, cell, most, auto, score, waits in grades:
            about = comments.get((submission, cell.removesuffix("-test")))
            if about is not None:
                mark = Mark(score, about[1] or "", waits)
                found.append(
                    Graded(
                        id=id_,
                        submission=submission,
                        student=student,
                        cell=cell,
                        max_points=most,
                        comment_id=about[0],
                        auto_score=auto,
                        mark=mark,
                    )
                )
        return found

    def change(self, changes: Sequence[Change]) -> None:
        """Change some marks in one transaction, if all of them are as they were seen.

        Raises:
            ChangedMeanwhileError: If one is not; all stay as they are.
            GradingError: If points are out of bounds or the gradebook cannot be written.
        """
        for each in changes:
            score = each.wanted.score
            if score is not None and not 0 <= score <= each.graded.max_points:
                raise GradingError(
                    f"Points are from 0 to {each.graded.max_points:g}; got {score:g}."
                )
        with self._transaction() as book:
            for each in changes:
                _change(book, each)

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[Connection]:
        if not self.path.exists():
            raise GradingError("There is no gradebook yet: `make grade UNIT=…` makes it.")
        try:
            with self._engine.begin() as connection:
                yield connection
        except DatabaseError as error:
            raise GradingError(
                f"The gradebook cannot be used now ({error.orig}), so nothing was written. Wait "
                "for a grading run to end, then do it again."
            ) from None


def _change(book: Connection, change: Change) -> None:
    """One update each of grade and comment, which finds its row only if it is as it was seen."""
    grade, comment, seen, wanted = Grade.__table__, Comment.__table__, change.seen, change.wanted
    updates = (
        update(grade)
        .where(grade.c.id == change.graded.id)
        .where(grade.c.manual_score.is_not_distinct_from(seen.score))
        .where(grade.c.needs_manual_grade == seen.waits)
        .values(manual_score=wanted.score, needs_manual_grade=wanted.waits),
        update(comment)
        .where(comment.c.id == change.graded.comment_id)
        .where(func.coalesce(comment.c.manual_comment, "") == seen.comment)
        .values(manual_comment=wanted.comment or None),
    )
    for each in updates:
        if book.execute(each).rowcount != 1:
            raise ChangedMeanwhileError


GRADES = (
    select(
        *(Grade.id, SubmittedNotebook.id, SubmittedAssignment.student_id, GradeCell.name),
        *(GradeCell.max_score, Grade.auto_score, Grade.manual_score, Grade.needs_manual_grade),
    )
    .join(SubmittedNotebook, Grade.notebook_id == SubmittedNotebook.id)
    .join(GradeCell, Grade.cell_id == GradeCell.id)
)
COMMENTS = (
    select(SubmittedNotebook.id, SolutionCell.name, Comment.id, Comment.manual_comment)
    .join(SubmittedNotebook, Comment.notebook_id == SubmittedNotebook.id)
    .join(SolutionCell, Comment.cell_id == SolutionCell.id)
)


def _of_unit(query: Any, unit: str) -> Any:
    return (
        query.join(SubmittedAssignment, SubmittedNotebook.assignment_id == SubmittedAssignment.id)
        .join(Assignment, SubmittedAssignment.assignment_id == Assignment.id)
        .join(Notebook, SubmittedNotebook.notebook_id == Notebook.id)
        .where(Assignment.name == unit, Notebook.name == unit)
    )
