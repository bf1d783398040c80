"""A small course that is generated once and copied for each test."""

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

import pytest

from autograder.grading.result import SubmissionResult
from autograder.grading.run import submission
from autograder.grading.run.run import Options, Run, configuration
from tests.autograder.grading.course_folder import NOON, Course, put_submission
from tests.needs import SANDBOX, require
from tests.notebooks.filling import ROOT, composite, filled, solved

UNIT, SEED = "00_start_here", "a secret of this test"
COMMAND = """
import sys
from pathlib import Path
from autograder.grading.command import main
if __name__ == "__main__":
    sys.exit(main(sys.argv[2:], Path(sys.argv[1])))
"""
ROWS = """
select student_id, n.name, b.name, {columns} from {table} t
join submitted_notebook sn on sn.id = t.notebook_id join notebook n on n.id = sn.notebook_id
join submitted_assignment sa on sa.id = sn.assignment_id join base_cell b on b.id = t.cell_id
order by 1, 2, 3
"""
SUBMISSIONS = """
select student_id, timestamp, extension, name, flagged, late_submission_penalty
from submitted_assignment sa join submitted_notebook sn on sn.assignment_id = sa.id
join notebook n on n.id = sn.notebook_id order by 1, 4
"""


@dataclass(frozen=True)
class Small:
    """A course in which unit 00 is generated."""

    root: Path

    def hand_in(self, student: str, answers: dict[str, str], when: str = NOON) -> Path:
        return put_submission(self.root, student, UNIT, filled(UNIT, answers), when)

    def hand_in_a_class(self, num_students: int) -> None:
        """One blank, then right ones and composites in turn."""
        for n in range(num_students):
            answers = solved(UNIT) | (composite(UNIT, n % 4) if n % 2 else {})
            self.hand_in(f"s{n:03}", answers if n else {})

    def grade(
        self, on_result: Callable[[SubmissionResult], object] = lambda _: None, **options
    ) -> list[SubmissionResult]:
        if not options.get("is_unsafe"):
            require(SANDBOX)
        run = Run(self.root, UNIT, Options(**{"jobs": 1} | options), configuration(self.root))
        return run.grade(on_result)

    def command(self, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        """`make grade` as a process of its own, which Ctrl-C in these tests does not reach."""
        return subprocess.Popen(
            [sys.executable, "-c", COMMAND, str(self.root), UNIT, *arguments],
            cwd=ROOT,
            env=os.environ | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def contents(self) -> dict[str, list[tuple]]:
        """All that the gradebook says of submissions."""
        grades = ROWS.format(
            table="grade", columns="auto_score, manual_score, extra_credit, needs_manual_grade"
        )
        comments = ROWS.format(table="comment", columns="auto_comment, manual_comment")
        book = sqlite3.connect(self.root / "gradebook.db")
        parts = {"grades": grades, "comments": comments, "submissions": SUBMISSIONS}
        parts["students"] = "select * from student order by 1"
        told = {name: book.execute(query).fetchall() for name, query in parts.items()}
        book.close()
        return told

    def files(self) -> dict[str, bytes]:
        """All that lies in `autograded/`."""
        folder = self.root / "autograded"
        return {
            str(path.relative_to(folder)): path.read_bytes()
            for path in folder.rglob("*")
            if path.is_file()
        }

    def copy(self, place: Path) -> "Small":
        return Small(shutil.copytree(self.root, place, symlinks=True))


class InThisProcess:
    """Grades at once, so that all tests share one sandbox."""

    jobs = 1

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def submit(self, given: submission.Submission) -> Future:
        future = Future()
        future.set_result(submission.grade(given))
        return future


@pytest.fixture(scope="session")
def generated(tmp_path_factory):
    """Unit 00 in a gradebook, nothing handed in."""
    course = Course(tmp_path_factory.mktemp("generated"))
    course.run("generate_assignment", UNIT)
    shutil.rmtree(course.folder / "solutions")
    return Small(course.folder)


@pytest.fixture
def small(generated, tmp_path, monkeypatch):
    """A course of its own for a test."""
    monkeypatch.setenv("COURSE_GRADING_SEED", SEED)
    return generated.copy(tmp_path / "course")
