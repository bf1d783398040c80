"""`make release UNIT=05`: let a unit count as the build left it.

The gradebook follows, and keeps every grade by exercise. Nothing is graded here.
"""

import argparse
import subprocess
import sys
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

import nbformat

from autograder.cells import cell_key
from autograder.commands import ROOT, find_unit, git, stops_with_a_sentence
from autograder.grading.errors import GradingError
from autograder.grading.gradebook.gradebook_writer import GradebookWriter
from autograder.grading.gradebook.submission_status import SubmissionStatus
from autograder.grading.gradebook.unit_lock import lock
from autograder.grading.manual_grading.rubric import points_of_rubric
from autograder.grading.release.archive import Archive, Form, Release, built
from autograder.grading.release.difference import (
    differences,
    exercise_of,
    is_extra,
    points_of,
)
from autograder.grading.run.run import configuration

USAGE = "make release UNIT=05 [ARGS=--dry-run]"
A_BONUS = "Where it should cost nobody anything, `extra=true` in its card makes it a bonus."
THIRDS = 1e-9  # a third of a point, three times


class Releasing:
    """The releases of one unit and the gradebook that follows them."""

    def __init__(self, root: Path, unit: str) -> None:
        """Take a course's folder and a unit.

        Raises:
            CommandError: If the unit or the gradebook cannot be used.
        """
        self.unit = find_unit(root / "notebooks", unit)
        self.root, self.archive = root, Archive(root, self.unit)
        self.store = GradebookWriter(root, configuration(root), secret="")
        self.number = self.store.release_of(self.unit)

    def forward(self, *, is_dry: bool) -> Iterator[str]:
        """Release what the build left; lines that say what changes."""
        form, old = built(self.root, self.unit), self._current()
        lines = differences(old.form, form) if old else []
        if old and not lines and self._gradebook_has(form):
            yield (
                f"Nothing of {self.unit} as it was built has changed since {old}. After a change "
                f"of the text master or of a check, `make build UNIT={self.unit[:2]}` comes first."
            )
            return
        yield f"{self.unit}, " + (f"changed since {old}:" if old else "as the build left it:")
        yield from (f"  {line}" for line in lines or _contents(form))
        yield from self._about_grades(form, old.form if old else form)
        yield from _about_rubrics(form)
        if is_dry:
            yield "Nothing was written."
            return
        with lock(self.root, self.unit):
            number = self.store.take(self.unit, form, lambda: self.archive.keep(form))
        yield f"This is release {number} now."
        yield from self._about_source()
        yield from self._what_to_do()

    def _current(self) -> Release | None:
        """The release that counts; none where there is none, or its files are lost."""
        try:
            return self.archive.read(self.number) if self.number else None
        except GradingError as error:
            print(error, file=sys.stderr)
            return None

    def _gradebook_has(self, form: Form) -> bool:
        """Whether the gradebook's cells are those of a form, as nobody else should change them."""
        try:
            self.store.check(self.unit, form.notebook)
        except GradingError:
            return False
        return True

    def _about_source(self) -> Iterator[str]:
        """Whether git could bring back what the release was made of."""
        master = f"solutions/{self.unit}/{self.unit}.py"
        try:
            changed = git(self.root, "status", "--porcelain", "--", master)
        except (FileNotFoundError, subprocess.CalledProcessError):  # no git, or no repository
            return
        if changed:
            yield f"{master} is not committed: commit it, so that git can bring it back."

    def _about_grades(self, form: Form, before: Form) -> Iterator[str]:
        """What becomes of the grades that are there."""
        found = self.store.statuses(self.unit)
        worth, old = points_of(form.notebook), points_of(before.notebook)
        graded = {name for each in found for name in each.scores}
        if not found:
            return
        changed = {name for name in graded & worth.keys() if old.get(name) != worth[name]}
        kept = len(graded & worth.keys() - changed)
        yield f"Grades of {len(found)} students in {kept} exercises stay as they are."
        if changed:
            yield _about_points(found, changed)
        if gone := sorted(graded - worth.keys()):
            yield f"Set aside, and back whenever the exercise is: grades of {', '.join(gone)}."
        aside = self.store.set_aside(self.unit)
        if more := sorted(worth.keys() - old.keys() - graded - aside):
            costs = "" if all(map(is_extra, more)) else f" {A_BONUS}"
            yield f"Nobody has an answer to {', '.join(more)} yet, which is 0 points.{costs}"
        if back := sorted(worth.keys() & aside):
            yield f"Back again: the grades of {', '.join(back)} that were set aside."

    def _what_to_do(self) -> Iterator[str]:
        if num_graded := len(self.store.statuses(self.unit)):
            yield (
                f"Then `make grade UNIT={self.unit[:2]}`: of the {num_graded} who handed in, it "
                "grades again whom the change concerns, whichever release they had."
            )


@stops_with_a_sentence
def main(arguments: Sequence[str] | None = None, root: Path = ROOT) -> int:
    """Release, and say what has changed; 1 if it cannot."""
    parser = argparse.ArgumentParser(prog="make release", usage=USAGE, description=__doc__)
    parser.add_argument("unit", help="number or folder of the unit")
    parser.add_argument("--dry-run", action="store_true", help="only say what would change")
    options = parser.parse_args(arguments)
    releasing = Releasing(root, options.unit)
    lines = list(releasing.forward(is_dry=options.dry_run))  # before a closed pipe can end it
    print("\n".join(lines))
    return 0


def _about_points(found: Sequence[SubmissionStatus], changed: Collection[str]) -> str:
    """What becomes of points in exercises that are worth something else now."""
    given = Counter(
        name
        for each in found
        for name in changed
        if name in each.scores and each.scores[name].is_given
    )
    marks = ", ".join(f"{name} {count}" for name, count in sorted(given.items()))
    second_look = f", and marks that people gave wait for a second look: {marks}" if given else ""
    return f"Where points change, those of checks follow at `make grade`{second_look}."


def _about_rubrics(form: Form) -> Iterator[str]:
    """The texts whose rubric is for other points."""
    worth = points_of(form.notebook)
    for cell in nbformat.reads(form.instructor, as_version=4).cells:
        name = exercise_of(cell_key(cell))
        if not (cell.cell_type == "markdown" and name in worth):
            continue
        total = points_of_rubric(cell.source)
        if total is not None and abs(total - worth[name]) > THIRDS:
            yield (
                f"The rubric of {name} makes {total:g} points, and the exercise has "
                f"{worth[name]:g}: change one of them, else readers have no keys for its items."
            )


def _contents(form: Form) -> list[str]:
    worth = points_of(form.notebook)
    return [f"{len(worth)} exercises with {sum(worth.values()):g} points"]


if __name__ == "__main__":
    sys.exit(main())
