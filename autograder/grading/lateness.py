"""Late days: extensions in nbgrader's gradebook, and what a day costs beyond them.

nbgrader keeps an extension with a submission. That of a student who has handed in nothing is kept
beside it, until the submission comes.
"""

import difflib
from datetime import timedelta

from nbgrader.api import Gradebook, MissingEntry
from nbgrader.plugins import LateSubmissionPlugin
from traitlets import Float

from autograder.grading import beside_grades
from autograder.grading.errors import GradingError

DAY_SECONDS = 24 * 60 * 60


class LateDays(LateSubmissionPlugin):  # type: ignore[misc]  # nbgrader has no types
    """A share of the points for every day begun: ``c.LateDays.share_per_day = 0.1``."""

    share_per_day = Float(0.1, help="of the points, for every day begun").tag(config=True)

    def late_submission_penalty(
        self, student_id: str, score: float, total_seconds_late: float
    ) -> float:
        """Points that lateness takes, at most all of them."""
        days_begun = -(-total_seconds_late // DAY_SECONDS)
        return min(score, self.share_per_day * days_begun * score)


def extend(book: Gradebook, unit: str, student: str, days: float) -> None:
    """Give a student days after the due date, in place of those given before; 0 are none.

    Raises:
        GradingError: If the gradebook knows no such unit or student.
    """
    _check_known(book, unit, student)
    try:
        book.find_submission(unit, student).extension = timedelta(days=days) if days else None
    except MissingEntry:
        beside_grades.promise_days(book, unit, student, days)


def grant_promised(book: Gradebook, unit: str, student: str) -> None:
    """Give a submission that has just come what was promised."""
    if days := beside_grades.promised_days(book, unit).get(student):
        book.find_submission(unit, student).extension = timedelta(days=days)
        beside_grades.promise_days(book, unit, student, 0)


def days_given(book: Gradebook) -> dict[str, dict[str, float]]:
    """Days of extension by student and unit."""
    found: dict[str, dict[str, float]] = {}
    for assignment in book.assignments:
        given = beside_grades.promised_days(book, assignment.name)
        for each in assignment.submissions:
            if each.extension:
                given[each.student_id] = each.extension / timedelta(days=1)
        for student, days in given.items():
            found.setdefault(student, {})[assignment.name] = days
    return found


def _check_known(book: Gradebook, unit: str, student: str) -> None:
    if unit not in (each.name for each in book.assignments):
        raise GradingError(f"The gradebook does not know {unit}: `make release UNIT={unit[:2]}`.")
    known = [each.id for each in book.students]
    if student not in known:
        near = ", ".join(difflib.get_close_matches(student, known, n=3))
        hint = f"is it one of {near}?" if near else "`nbgrader db student add` makes it known."
        raise GradingError(f"The gradebook knows no student `{student}`: {hint}")
