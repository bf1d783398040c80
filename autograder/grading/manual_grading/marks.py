"""Points and comments by people, in nbgrader's gradebook: read, and changed only as they were seen.

A change names the mark that its reader saw. One that has been changed since is left alone, together
with all that was to be changed with it, so that two readers at once lose nothing.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from nbgrader.api import (
    Assignment,
    Comment,
    Grade,
    GradeCell,
    SolutionCell,
    SubmittedAssignment,
    SubmittedNotebook,
)
from sqlalchemy import Connection, func, select, update
from sqlalchemy.orm import aliased

from autograder.grading.errors import GradingError
from autograder.grading.gradebook.course_table import transaction

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


@dataclass(frozen=True)
class Graded:
    """One answer of one student in the gradebook.

    Attributes:
        id: nbgrader's random id of the grade, which tells nothing of the student.
        submission: nbgrader's random id of the submitted notebook.
        cell: Name of the graded cell.
        auto_score: Points by the grader; None where a person has to read.
        comment_id: nbgrader's id of the comment on the answer.
    """

    mark: Mark
    id: str
    submission: str
    student: str
    cell: str
    max_points: float
    auto_score: float | None
    comment_id: str


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
        self._root = root

    def of_unit(self, unit: str) -> list[Graded]:
        """All answers of all students to the exercises of a unit.

        Raises:
            GradingError: If there is no gradebook, or it cannot be read.
        """
        with transaction(self._root) as book:
            rows = book.execute(ANSWERS.where(Assignment.name == unit)).all()
        return [Graded(Mark(score, said or "", w), *about) for *about, score, said, w in rows]

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
        with transaction(self._root) as book:
            for each in changes:
                _change(book, each)


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


ANSWERED = aliased(SolutionCell, flat=True)
ANSWERS = (
    select(
        *(Grade.id, SubmittedNotebook.id, SubmittedAssignment.student_id, GradeCell.name),
        *(GradeCell.max_score, Grade.auto_score, Comment.id),
        *(Grade.manual_score, Comment.manual_comment, Grade.needs_manual_grade),
    )
    .join(GradeCell, Grade.cell_id == GradeCell.id)
    .join(SubmittedNotebook, Grade.notebook_id == SubmittedNotebook.id)
    .join(SubmittedAssignment, SubmittedNotebook.assignment_id == SubmittedAssignment.id)
    .join(Assignment, SubmittedAssignment.assignment_id == Assignment.id)
    .join(Comment, Comment.notebook_id == SubmittedNotebook.id)
    .join(ANSWERED, Comment.cell_id == ANSWERED.id)
    .where(ANSWERED.name == func.replace(GradeCell.name, "-test", ""))
)
