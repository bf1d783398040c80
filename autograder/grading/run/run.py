"""One grading run over the collected submissions of a unit: `make grade UNIT=01`.

Several processes or a Dask cluster grade; only this process writes. A grade that is already in the
gradebook, from the same submission, release, grader and seeds, is skipped, so that a run that was
stopped at any moment goes on where it was.
"""

import contextlib
import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path

import nbformat
from traitlets.config import Config
from traitlets.config.loader import PyFileConfigLoader

from autograder import catalogue
from autograder.checking.seeds import seeds_from
from autograder.checking.verdict import Verdict
from autograder.commands import find_unit
from autograder.files import read_line, replacing, write_synced
from autograder.grading import intake
from autograder.grading.errors import GradingError
from autograder.grading.gradebook import timestamp
from autograder.grading.gradebook.grade_key import grade_key
from autograder.grading.gradebook.gradebook_writer import GradebookWriter
from autograder.grading.gradebook.unit_lock import lock
from autograder.grading.intake.wording import shown
from autograder.grading.release.archive import Archive, Release, built
from autograder.grading.release.difference import differences, not_in_the_course
from autograder.grading.result import SubmissionResult
from autograder.grading.run.notebook_plan import questions
from autograder.grading.run.pool import Pool, cluster, processes, stream
from autograder.grading.run.submission import Submission
from autograder.grading.sandbox import bubblewrap

SEED_FILE = "grading_seed"

OnResult = Callable[[SubmissionResult], None]


@dataclass(frozen=True, kw_only=True)
class Options:
    """How to grade.

    Attributes:
        jobs: Processes on this machine.
        students: Only these, or all who handed in.
        exercise: Judge only this exercise again; other verdicts stay.
        again: Whether to grade again what is graded already.
        is_unsafe: Whether students' code may run without a sandbox.
        scheduler: Address of a Dask scheduler instead of processes on this machine.
    """

    jobs: int = os.cpu_count() or 1
    students: tuple[str, ...] = ()
    exercise: str = ""
    again: bool = False
    is_unsafe: bool = False
    scheduler: str = ""

    @property
    def begins_anew(self) -> bool:
        """Whether everybody is graded, even if nothing has changed."""
        return self.again or bool(self.exercise)


class Run:
    """One run over the collected submissions of one unit."""

    def __init__(self, root: Path, unit: str, options: Options, config: Config) -> None:
        """Check that the unit can be graded.

        Raises:
            CommandError: If it cannot; the message says what to do.
        """
        self.root, self.options = root, options
        self.unit, self.release = _find_release(root, unit)
        secret = secret_of(root)
        self.seeds = seeds_from(secret)
        self.store = GradebookWriter(root, config, secret)
        self._archive = Archive(root, self.unit)
        self.unreleased = ""
        if number := self.store.release_of(self.unit):
            current = self._archive.read(number)
            self.unreleased = _unreleased(current, self.release)
            self.release = current.form.release
        self._fresh = nbformat.reads(self.release, as_version=4)
        self.store.check(self.unit, self._fresh)
        self._check_catalogue()
        self.students = self._students()
        self.earlier: dict[str, SubmissionResult] = {}
        if options.exercise:
            self._check_exercise()
        if not options.is_unsafe and not options.scheduler:
            bubblewrap.sandboxed()

    def grade(self, on_result: OnResult) -> list[SubmissionResult]:
        """Grade and write all submissions; the results, in the order in which they came.

        Args:
            on_result: Is called with each result after it is written.

        Raises:
            GradingError: If disk or gradebook cannot be written; what is written stays.
        """
        results: list[SubmissionResult] = []
        locked, tidy = lock(self.root, self.unit), contextlib.closing(self.store)
        with locked, tidy, self.store.one_sentence_errors(), self._pool() as pool:
            self._release_first()
            self.earlier = self.store.results(self.unit)
            for submission, graded in stream(pool, self._submissions()):
                if not results:
                    self.store.back_up()
                self.store.put(graded, self._folder(submission.student), submission.key)
                results.append(graded.result)
                on_result(graded.result)
            graded_now = {result.student for result in results}
            self.store.renew_penalties(self.unit, set(self.students) - graded_now)
        return results

    def _pool(self) -> AbstractContextManager[Pool]:
        if self.options.scheduler:
            return cluster(self.options.scheduler)
        jobs = max(1, min(self.options.jobs, len(self.students)))
        names = [self.options.exercise] if self.options.exercise else self._checked_exercises
        measured = self.root / "grading" / "measured"
        return processes(jobs, self.options.is_unsafe, measured, names, self.seeds)

    def _submissions(self) -> Iterator[Submission]:
        """The submissions to grade."""
        due, stored = self.store.deadlines(self.unit), self.store.keys(self.unit)
        others = self._archive.others(self.store.release_of(self.unit))
        for student in self.students:
            found = intake.find(self._folder(student), self.unit, self._is_written)
            about = (*found.remarks, timestamp.text_of(self._folder(student)), due(student))
            parts = (found.raw or b"", self.release.encode(), repr((about, self.seeds)).encode())
            key = grade_key(*parts)
            last = stored.get(student)
            if self.options.begins_anew or last != key:
                is_same = last is not None and last.submission == key.submission
                yield Submission(
                    unit=self.unit,
                    student=student,
                    raw=found.raw,
                    key=key,
                    release=self.release,
                    other_releases=others,
                    seeds=self.seeds,
                    remarks=found.remarks,
                    known=self._known(student) if is_same else {},
                    is_unsafe=self.options.is_unsafe,
                )

    def _is_written(self, raw: bytes) -> bool:
        """Whether a file holds an answer, so that it counts before one that holds none."""
        return intake.num_answers(raw, [self._fresh]) > 0

    def _known(self, student: str) -> dict[str, Verdict]:
        """Verdicts that stay when only one exercise is judged again."""
        last = self.earlier[student]
        if not self.options.exercise or last.needs_human:
            return {}
        others = (v for v in last.verdicts if v.judged and v.exercise != self.options.exercise)
        return {each.exercise: each for each in others}

    def _students(self) -> list[str]:
        """The students to grade, of those who handed in."""
        there = students_of(self.root, self.unit)
        if missing := sorted(set(self.options.students) - set(there)):
            raise GradingError(
                f"Nothing was collected of {self.unit} from {', '.join(missing)}; "
                f"{len(there)} others handed in."
            )
        if not there:
            raise GradingError(
                f"Nothing was collected of {self.unit}: run `nbgrader collect {self.unit}` or "
                f"`make collect UNIT={self.unit[:2]} ZIP=download.zip`, or put notebooks at "
                f"submitted/<student>/{self.unit}/{self.unit}.ipynb."
            )
        wanted = self.options.students or there
        return [name for name in there if name in wanted]

    def _folder(self, student: str) -> Path:
        return self.root / "submitted" / student / self.unit

    @property
    def _checked_exercises(self) -> list[str]:
        """Ids of the exercises that a check judges."""
        return [question.exercise for question in questions(self._fresh)]

    def _release_first(self) -> None:
        """Make the unit's first release of what the build left, unless there is one."""
        if self.store.release_of(self.unit):
            return
        try:
            form = built(self.root, self.unit)
        except GradingError:
            if not self.store.knows(self.unit):
                raise
            return  # taught by nbgrader, with no instructor's notebook here
        self.store.take(self.unit, form, lambda: self._archive.keep(form))

    def _check_catalogue(self) -> None:
        """Check that the course still has all exercises of the release."""
        if gone := not_in_the_course(self._checked_exercises):
            raise GradingError(
                f"{self.unit} was released with {', '.join(gone)}, and the course has no such "
                f"exercise now: `make release UNIT={self.unit[:2]}` takes it out and keeps its "
                f"grades. To keep it, put it back into solutions/{self.unit}/{self.unit}.py, from "
                f"git or by hand, then `make build UNIT={self.unit[:2]}`."
            )

    def _check_exercise(self) -> None:
        names = self._checked_exercises
        if self.options.exercise not in names:
            raise GradingError(
                f"{self.unit} has no exercise `{self.options.exercise}` that a check judges: name "
                f"one of {', '.join(names)}."
            )


def _find_release(root: Path, unit: str) -> tuple[str, str]:
    """Folder of a unit, and its notebook as students got it."""
    for known in catalogue.units():
        release = root / "notebooks" / known.folder / f"{known.folder}.ipynb"
        if unit.zfill(2) in (known.number, known.folder) and not release.is_file():
            raise GradingError(
                f"The release {release} is not there: `nbgrader generate_assignment` deletes it "
                f"when it fails. `make build UNIT={known.number}` makes it again."
            )
    folder = find_unit(root / "notebooks", unit)
    return folder, (root / "notebooks" / folder / f"{folder}.ipynb").read_text("utf-8")


def _unreleased(current: Release, release: str) -> str:
    """A sentence if the build left another form than the release that counts."""
    if release == current.form.release:
        return ""
    form = replace(current.form, release=release)
    lines = "; ".join(differences(current.form, form))
    return (
        f"It is graded as in {current}. The notebook has changed since ({lines}): "
        "`make release` takes that."
    )


def nothing_to_do(num_students: int) -> str:
    """A sentence for a run that had nothing to grade."""
    return f"Nothing has changed since all {num_students} were graded."


def students_of(root: Path, unit: str) -> list[str]:
    """The students who handed in something for a unit."""
    return sorted(filter(_is_text, _names_of_folders(root, unit)))


def left_out(root: Path, unit: str) -> list[str]:
    """A sentence for each folder that handed in something and cannot be graded."""
    return [
        f"The folder {shown(name)} of submitted is not graded: its name is no UTF-8. Rename it."
        for name in sorted(_names_of_folders(root, unit))
        if not _is_text(name)
    ]


def _names_of_folders(root: Path, unit: str) -> list[str]:
    folders = (root / "submitted").glob("*")
    return [path.name for path in folders if (path / unit).is_dir()]


def _is_text(name: str) -> bool:
    """Whether a name can be stored: a file system takes any bytes."""
    return not any("\udc80" <= letter <= "\udcff" for letter in name)


def secret_of(root: Path) -> str:
    """The secret from which the seeds of hidden cases derive; the first run creates it.

    Raises:
        GradingError: If its file exists and holds none.
    """
    file = root / SEED_FILE
    if known := os.environ.get("COURSE_GRADING_SEED") or read_line(file):
        return known
    if os.path.lexists(file):
        raise GradingError(f"{file} holds no secret: remove it, and the next grading makes one.")
    secret = secrets.token_hex(16)
    with replacing(file) as beside:
        write_synced(beside, f"{secret}\n".encode(), mode=0o600)
    return secret


def configuration(root: Path) -> Config:
    """What `nbgrader_config.py` says."""
    return PyFileConfigLoader("nbgrader_config.py", path=str(root)).load_config()
