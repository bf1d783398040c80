"""The report of a graded class, as data and as one self-contained page."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from autograder import catalogue
from autograder.catalogue import Unit
from autograder.grading.beside_grades import results_of
from autograder.grading.gradebook_writer import GradebookWriter
from autograder.grading.report.course_copies import Copies, course_copies
from autograder.grading.report.figure import outcome_picture, points_picture
from autograder.grading.report.tables import exercise_table, submission_table, text_table
from autograder.grading.run import configuration
from autograder.grading.standings import Standing, what_waits, who_was_late
from course_utils import colours

TEMPLATE = Path(__file__).with_name("page.html.j2")


@dataclass(frozen=True, kw_only=True)
class ClassReport:
    """The report of a graded class.

    Attributes:
        exercises: One row an exercise, as `exercise_table` gives it.
        submissions: One row a student, as `submission_table` gives it.
        texts: One row an exercise that a person reads, as `text_table` gives it.
        standings: How each student stands, by id.
        copies: Who has the course's own code, word for word.
    """

    unit: Unit
    exercises: pd.DataFrame
    submissions: pd.DataFrame
    texts: pd.DataFrame
    standings: tuple[Standing, ...]
    copies: Copies

    def page(self) -> str:
        """The report as HTML: no script, nothing to fetch, every text escaped."""
        environment = Environment(autoescape=True, undefined=StrictUndefined)
        template = environment.from_string(TEMPLATE.read_text(encoding="utf-8"))
        pictures = [outcome_picture(self.exercises)]
        if self.standings:
            points = [each.points for each in self.standings]
            pictures.append(points_picture(points, self._core_points))
        return template.render(
            unit=self.unit,
            colours=colours,
            pictures=[Markup(picture._repr_html_()) for picture in pictures],
            texts=self.texts.rename_axis("id").reset_index().to_dict("records"),
            standings=self.standings,
            columns=[item for item in self.unit.exercises if item.id in self._worth],
            waiting=[*what_waits(self.standings), *who_was_late(self.standings)],
            states=self._states,
            cpu_seconds=self.submissions["cpu_seconds"].median(),
            exercises=self.exercises.rename_axis("id").reset_index().to_dict("records"),
            submissions=self.submissions.rename_axis("student").reset_index().to_dict("records"),
            copies=self.copies,
        )

    @property
    def _worth(self) -> dict[str, float]:
        """What each exercise is worth."""
        scores = (item for each in self.standings for item in each.scores.items())
        return {exercise: score.max_points for exercise, score in scores}

    @property
    def _core_points(self) -> float:
        return sum(self._worth.get(item.id, 0) for item in self.unit.exercises if not item.extra)

    @property
    def _states(self) -> str:
        counts = Counter(self.submissions["state"])
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
        lines += [*what_waits(self.standings), *who_was_late(self.standings)]
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
    found = GradebookWriter(root, configuration(root), "").standings(unit)
    return ClassReport(
        unit=known,
        exercises=exercise_table(known, results),
        submissions=submission_table(results),
        texts=text_table(known, found),
        standings=tuple(found),
        copies=course_copies(root, unit, results),
    )
