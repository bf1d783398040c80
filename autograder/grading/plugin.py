"""The course's grader behind `nbgrader autograde` and formgrader's button.

nbgrader names its converter in two modules and has no setting for it; `use` replaces it there.
"""

from fnmatch import fnmatch
from pathlib import Path

from nbgrader.apps import api, autogradeapp
from nbgrader.converters import Autograde
from nbgrader.converters.base import NbGraderException

from autograder.commands import CommandError
from autograder.grading.result import SubmissionResult


class CourseAutograde(Autograde):  # type: ignore[misc]
    """nbgrader's command with our grader: same options, gradebook and files."""

    def start(self) -> None:
        """Grade the students whose ids match.

        Raises:
            NbGraderException: If nothing can be graded; the log says why.
        """
        from autograder.grading.run.run import Options, Run, nothing_to_do

        root, unit = Path(self.coursedir.root), self.coursedir.assignment_id
        try:
            options = Options(students=self._students(root, unit), again=self.force)
            run = Run(root, unit, options, self.config)
            if not run.grade(self._log_result):
                self.log.info("%s `--force` grades them again.", nothing_to_do(len(run.students)))
        except CommandError as error:
            self.log.error(str(error))
            raise NbGraderException(str(error)) from None

    def _students(self, root: Path, unit: str) -> tuple[str, ...]:
        from autograder.grading.run.run import students_of

        wanted, left_out = self.coursedir.student_id, self.coursedir.student_id_exclude.split(",")
        there = students_of(root, unit)
        found = [name for name in there if fnmatch(name, wanted) and name not in left_out]
        return tuple(found) or ((wanted,) if there else ())

    def _log_result(self, result: SubmissionResult) -> None:
        points = sum(verdict.points for verdict in result.verdicts)
        self.log.info("%s: %g points by the checks, %s", result.student, points, result.state)
        for why in (*result.for_a_person, *result.remarks):
            self.log.warning("%s: %s", result.student, why)


def use() -> None:
    """Make nbgrader's commands and web pages use this grader."""
    api.Autograde = autogradeapp.Autograde = CourseAutograde
