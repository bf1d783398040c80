"""How each student stands in a unit: points by exercise, what waits for a person, lateness."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from nbgrader.api import Grade, Gradebook, SubmittedAssignment

from autograder.grading.release.difference import exercise_of


@dataclass(frozen=True)
class Score:
    """The points of one exercise, those that a person gave before those of the check.

    Attributes:
        is_unread: Whether it is a text that nobody has read.
        is_unjudged: Whether it is code that no check has judged, and no person yet.
        is_doubtful: Whether what it was given for has changed since a person gave it.
        is_given: Whether a person gave it.
        is_written: Whether it is no text that was left as it was, which has 0 by the grader.
    """

    points: float
    max_points: float
    is_unread: bool = False
    is_unjudged: bool = False
    is_doubtful: bool = False
    is_given: bool = False
    is_written: bool = True


@dataclass(frozen=True, kw_only=True)
class SubmissionStatus:
    """One submission as the gradebook has it.

    Attributes:
        scores: By exercise, in the gradebook's order.
        late: Time after the due date with its extension; nothing where it came in time.
        extension: Time more than the others have.
        penalty: Points that lateness takes.
    """

    student: str
    scores: Mapping[str, Score]
    late: timedelta = timedelta()
    extension: timedelta = timedelta()
    penalty: float = 0.0

    @property
    def points(self) -> float:
        """Points that count, after the penalty."""
        return max(0.0, sum(each.points for each in self.scores.values()) - self.penalty)

    @property
    def about_time(self) -> str:
        """Lateness, extension and penalty in words; nothing where there is none of them."""
        parts = [f"{in_words(self.late)} late"] if self.late else []
        parts += [f"{self.penalty:g} points less"] if self.penalty else []
        parts += [f"extension of {in_words(self.extension)}"] if self.extension else []
        return ", ".join(parts)


def statuses(book: Gradebook, unit: str) -> list[SubmissionStatus]:
    """Everybody who handed in a unit, by id."""
    found = (_status(each) for each in book.assignment_submissions(unit))
    return sorted(found, key=lambda each: each.student)


def _status(submission: SubmittedAssignment) -> SubmissionStatus:
    grades = [grade for notebook in submission.notebooks for grade in notebook.grades]
    return SubmissionStatus(
        student=submission.student_id,
        scores={exercise_of(grade.name): _score(grade) for grade in grades},
        late=timedelta(seconds=submission.total_seconds_late),
        extension=submission.extension or timedelta(),
        penalty=submission.late_submission_penalty or 0.0,
    )


def _score(grade: Grade) -> Score:
    waits, is_given = bool(grade.needs_manual_grade), grade.manual_score is not None
    is_text = grade.cell.cell_type == "markdown"
    return Score(
        points=grade.score,
        max_points=grade.max_score,
        is_unread=waits and is_text and not is_given,
        is_unjudged=waits and not is_text and not is_given,
        is_doubtful=waits and is_given,
        is_given=is_given,
        is_written=not is_text or grade.auto_score is None or waits or is_given,
    )


def what_waits(found: Iterable[SubmissionStatus]) -> list[str]:
    """A line on texts that nobody has read, and one on scores to look at again."""
    unread: Counter[str] = Counter()
    doubtful: Counter[str] = Counter()
    for status in found:
        unread.update(name for name, score in status.scores.items() if score.is_unread)
        doubtful.update(name for name, score in status.scores.items() if score.is_doubtful)
    lines = [_counted(unread, "text waits", "texts wait", "for a reader")] if unread else []
    if doubtful:
        lines.append(_counted(doubtful, "score waits", "scores wait", "for a second look"))
    return lines


def who_was_late(found: Sequence[SubmissionStatus]) -> list[str]:
    """A line on those who handed in late or had an extension."""
    told = [f"{each.student} {each.about_time}" for each in found if each.about_time]
    return [f"Due date: {'; '.join(told)}."] if told else []


def in_words(time: timedelta) -> str:
    """A span of time in its two largest units: ``1 d 3 h``."""
    minutes = max(1, round(time.total_seconds() / 60))
    parts = {"d": minutes // 1440, "h": minutes // 60 % 24, "min": minutes % 60}
    shown = [f"{count} {unit}" for unit, count in parts.items() if count]
    return " ".join(shown[:2])


def _counted(by_exercise: Counter[str], one: str, many: str, why: str) -> str:
    count = by_exercise.total()
    names = ", ".join(f"{name} {number}" for name, number in sorted(by_exercise.items()))
    return f"{count} {one if count == 1 else many} {why}: {names}."
