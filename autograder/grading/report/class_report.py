"""The report of a graded class, as data and as one self-contained page."""

import statistics
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from autograder import catalogue
from autograder.catalogue import Unit
from autograder.grading.gradebook.course_table import results_of
from autograder.grading.gradebook.gradebook_writer import GradebookWriter
from autograder.grading.gradebook.submission_status import (
    SubmissionStatus,
    what_waits,
    who_was_late,
)
from autograder.grading.report.course_copies import Copies, course_copies
from autograder.grading.report.figure import outcome_picture, points_picture
from autograder.grading.report.tables import exercise_table, text_table
from autograder.grading.result import SubmissionResult
from autograder.grading.run.run import configuration
from course_utils import colours

TEMPLATE = Path(__file__).with_name("page.html.j2")


@dataclass(frozen=True, kw_only=True)
class ClassReport:
    """The report of a graded class.

    Attributes:
        exercises: One row an exercise, as `exercise_table` gives it.
        submissions: Their results, those that need a human first.
        texts: One row an exercise that a person reads, as `text_table` gives it.
        statuses: How each student stands, by id.
        copies: Who has the course's own code, word for word.
    """

    unit: Unit
    exercises: pd.DataFrame
    submissions: tuple[SubmissionResult, ...]
    texts: pd.DataFrame
    statuses: tuple[SubmissionStatus, ...]
    copies: Copies

    def page(self) -> str:
        """The report as HTML: no script, nothing to fetch, every text escaped."""
        environment = Environment(autoescape=True, undefined=StrictUndefined)
        template = environment.from_string(TEMPLATE.read_text(encoding="utf-8"))
        pictures = [outcome_picture(self.exercises)]
        if self.statuses:
            points = [each.points for each in self.statuses]
            pictures.append(points_picture(points, self._core_points))
        return template.render(
            unit=self.unit,
            colours=colours,
            pictures=[Markup(picture._repr_html_()) for picture in pictures],
            texts=self.texts.rename_axis("id").reset_index().to_dict("records"),
            statuses=self.statuses,
            columns=[item for item in self.unit.exercises if item.id in self._worth],
            waiting=[*what_waits(self.statuses), *who_was_late(self.statuses)],
            states=self._states,
            cpu_seconds=statistics.median(each.cpu_seconds for each in self.submissions),
            exercises=self.exercises.rename_axis("id").reset_index().to_dict("records"),
            submissions=self.submissions,
            copies=self.copies,
        )

    @property
    def _worth(self) -> dict[str, float]:
        """What each exercise is worth."""
        scores = (item for each in self.statuses for item in each.scores.items())
        return {exercise: score.max_points for exercise, score in scores}

    @property
    def _core_points(self) -> float:
        return sum(self._worth.get(item.id, 0) for item in self.unit.exercises if not item.extra)

    @property
    def _states(self) -> str:
        counts = Counter(each.state for each in self.submissions)
        return ", ".join(f"{state} {count}" for state, count in sorted(counts.items()))

    def in_short(self) -> str:
        """The table of exercises and the numbers of submissions, as text."""
        table = self.exercises[["full", "part", "wrong", "not_written"]].rename(
            columns={"not_written": "not written"}
        )
        points = [f"{each:.0%}" for each in self.exercises["points_fraction"]]
        lines = [table.assign(points=points).to_string(), "", f"Submissions: {self._states}."]
        if self.copies:
            lines.append(f"Code that is the course's own word for word: {', '.join(self.copies)}.")
        lines += [*what_waits(self.statuses), *who_was_late(self.statuses)]
        return "\n".join(lines)


def report_on(root: Path, unit: str) -> ClassReport:
    """The report on the graded submissions of a unit.

    Args:
        root: The folder of the course.
        unit: The unit's folder name.

    Raises:
        GradingError: If nothing of it was graded.
    """
    results = results_of(root, unit)
    known = next(each for each in catalogue.units() if each.folder == unit)
    found = GradebookWriter(root, configuration(root), "").statuses(unit)
    return ClassReport(
        unit=known,
        exercises=exercise_table(known, results),
        submissions=tuple(sorted(results, key=lambda each: (not each.for_a_person, each.student))),
        texts=text_table(known, found),
        statuses=tuple(found),
        copies=course_copies(root, unit, results),
    )
