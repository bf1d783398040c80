"""Exporters of nbgrader that write grades as Canvas and Moodle import them.

    nbgrader export --exporter=autograder.grading.report.lms_csv.CanvasExporter --to=canvas.csv
    nbgrader export --exporter=autograder.grading.report.lms_csv.MoodleExporter \\
        --assignment=01_transformer_flops --to=moodle.csv

Grades are those of the gradebook, including late penalties and points given by a person. Students
who handed in nothing have no grade: the LMS decides what that means. Points possible are those of
the core exercises, so that extra points are a bonus.
"""

import csv
import html
import io
from collections.abc import Iterable, Sequence
from pathlib import Path

from nbgrader.api import Assignment, Grade, Gradebook, MissingEntry, Student, SubmittedAssignment
from nbgrader.plugins import ExportPlugin

from autograder import catalogue
from autograder.checking.verdict import Verdict
from autograder.files import write_whole
from autograder.grading.gradebook import course_table

FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\0", "＝", "＋", "－", "＠")
EXERCISES = catalogue.by_graded_cell()
TITLES = {unit.folder: unit.title for unit in catalogue.units()}

Cell = str | float


class _Exporter(ExportPlugin):  # type: ignore[misc]  # nbgrader has no types
    """What both exporters share: the selected students and assignments, and an atomic file."""

    def _students(self, gradebook: Gradebook) -> list[Student]:
        wanted = set(map(str, self.student))
        return [each for each in gradebook.students if not wanted or each.id in wanted]

    def _assignments(self, gradebook: Gradebook) -> list[Assignment]:
        wanted = set(map(str, self.assignment))
        return [each for each in gradebook.assignments if not wanted or each.name in wanted]

    def _warn(self, student: Student, submissions: Iterable[SubmittedAssignment | None]) -> None:
        unread = [each.name for each in submissions if each and each.needs_manual_grade]
        if unread:
            names = ", ".join(unread)
            self.log.warning("%s: a person has to read %s; not final yet", student.id, names)

    def _write(self, rows: Iterable[Sequence[Cell]], default: str) -> None:
        path, text = Path(self.to or default), io.StringIO(newline="")
        csv.writer(text).writerows([harmless(cell) for cell in row] for row in rows)
        write_whole(path, text.getvalue())
        self.log.info("Wrote %s", path)


class CanvasExporter(_Exporter):
    """All grades as Canvas's gradebook imports them: one column an assignment.

    A student is known by the id of nbgrader as login, and by `lms_user_id` as Canvas's own id.
    """

    def export(self, gradebook: Gradebook) -> None:
        """Write the file."""
        assignments = self._assignments(gradebook)
        names = [f"{TITLES.get(each.name, each.name)} ({each.name})" for each in assignments]
        rows: list[list[Cell]] = [
            ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", *names],
            ["    Points Possible", "", "", "", "", *map(core_points, assignments)],
        ]
        for student in self._students(gradebook):
            found = [_submission(gradebook, each, student) for each in assignments]
            self._warn(student, found)
            grades = ["" if each is None else points(each) for each in found]
            known_as = [_name(student), student.lms_user_id or "", "", student.id, ""]
            rows.append([*known_as, *grades])
        self._write(rows, "canvas.csv")


class MoodleExporter(_Exporter):
    """The grades of one assignment as Moodle imports them, with a comment on each.

    If every student has an `lms_user_id` like ``Participant 123``, it is the `Identifier` of a
    grading worksheet. Otherwise, or if it is a mere number, as for Canvas, nbgrader's id is the
    `ID number` of a grade import.
    """

    def export(self, gradebook: Gradebook) -> None:
        """Write the file.

        Raises:
            SystemExit: If it is not clear which assignment is meant.
        """
        assignments = self._assignments(gradebook)
        if len(assignments) != 1:
            there = ", ".join(each.name for each in gradebook.assignments) or "none yet"
            raise SystemExit(
                f"Moodle takes one assignment a file: name it with --assignment; there are {there}."
            )
        found = [
            (student, submission)
            for student in self._students(gradebook)
            if (submission := _submission(gradebook, assignments[0], student))
        ]
        known = [student.lms_user_id or "" for student, _ in found]
        is_worksheet = bool(known) and not any(each.isdigit() or not each for each in known)
        results = course_table.results(gradebook.db, assignments[0].name)
        verdicts = {name: {v.exercise: v for v in each.verdicts} for name, each in results.items()}
        if found and not verdicts:
            self.log.warning("Comments are without hints: no result of the checks is there.")
        rows: list[list[Cell]] = [
            ["Identifier" if is_worksheet else "ID number", "Grade", "Feedback comments"]
        ]
        for student, submission in found:
            self._warn(student, [submission])
            known_as = student.lms_user_id if is_worksheet else student.id
            feedback = comments(submission, verdicts.get(student.id, {}))
            rows.append([known_as, points(submission), feedback])
        self._write(rows, "moodle.csv")


def harmless(cell: Cell) -> Cell:
    """A cell that no spreadsheet takes for a formula: text that starts like one gets a quote."""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(FORMULA) else cell


def points(submission: SubmittedAssignment) -> float:
    """Points that count: after the late penalty, and never below zero."""
    return float(round(max(0.0, submission.score - submission.late_submission_penalty), 6))


def core_points(assignment: Assignment) -> float:
    """Points possible, as they were released, without those of extra exercises."""
    cells = (cell for notebook in assignment.notebooks for cell in notebook.grade_cells)
    return float(sum(cell.max_score for cell in cells if not _is_extra(cell.name)))


def _is_extra(cell: str) -> bool:
    return cell in EXERCISES and EXERCISES[cell].extra


def comments(submission: SubmittedAssignment, verdicts: dict[str, Verdict]) -> str:
    """A line of HTML for each exercise: its points, what its check says, what a person wrote."""
    manual_comments = {
        each.name: each.manual_comment
        for notebook in submission.notebooks
        for each in notebook.comments
        if each.manual_comment
    }
    grades = {grade.name: grade for notebook in submission.notebooks for grade in notebook.grades}
    lines = []
    for name, item in EXERCISES.items():
        if name in grades:
            said = [
                *_said_by_check(grades[name], verdicts.get(item.id)),
                manual_comments.get(item.id, ""),
            ]
            lines.append(f"{item.title}: {' '.join(said).strip()}")
    if submission.late_submission_penalty:
        lines.append(f"Handed in late: {submission.late_submission_penalty:g} points less.")
    return "<br>".join(html.escape(line) for line in lines)


def _said_by_check(grade: Grade, verdict: Verdict | None) -> list[str]:
    """The points, and why some are missing, unless a person decided otherwise."""
    if grade.needs_manual_grade and grade.manual_score is None:
        return ["not read yet."]
    share = [f"{grade.score:g} of {grade.max_score:g}."]
    if verdict is None or verdict.passed or grade.manual_score is not None:
        return share
    return [*share, verdict.sentence, verdict.hint]


def _submission(
    gradebook: Gradebook, assignment: Assignment, student: Student
) -> SubmittedAssignment | None:
    try:
        return gradebook.find_submission(assignment.name, student.id)
    except MissingEntry:
        return None


def _name(student: Student) -> str:
    """Last and first name; the id of a student who has none."""
    return ", ".join(filter(None, (student.last_name, student.first_name))) or str(student.id)
