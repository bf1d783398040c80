"""`make release UNIT=05`: let a unit count as the build left it, or go back to the release before.

The gradebook follows, and keeps every grade by exercise. Nothing is graded here.
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from autograder.grading.errors import GradingError
from autograder.grading.gradebook_writer import GradebookWriter
from autograder.grading.journal import lock, path_of
from autograder.grading.release.archive import Archive, Form, Release, built
from autograder.grading.release.difference import differences, points_of
from autograder.grading.run import configuration
from autograder.student.environment import ROOT
from autograder.student.errors import CommandError
from autograder.student.work_folder import find_unit

USAGE = 'make release UNIT=05 [ARGS="--dry-run" or ARGS="--undo"]'


class Releasing:
    """The releases of one unit and the gradebook that follows them."""

    def __init__(self, root: Path, unit: str) -> None:
        """Take a course's folder and a unit.

        Raises:
            GradingError: If the unit or the gradebook cannot be used.
        """
        try:
            self.unit = find_unit(root / "notebooks", unit)
        except CommandError as error:
            raise GradingError(str(error)) from None
        self.root, self.archive = root, Archive(root, self.unit)
        self.store = GradebookWriter(root, configuration(root), secret="")
        self.number = self.store.release_of(self.unit)

    def forward(self, *, is_dry: bool) -> Iterator[str]:
        """Release what the build left; lines that say what changes."""
        form, old = built(self.root, self.unit), self._current()
        lines = differences(old.form, form) if old else []
        if old and not lines and self._gradebook_has(form):
            yield f"Nothing of {self.unit} has changed since {old}."
            return
        yield f"{self.unit}, " + (f"changed since {old}:" if old else "as the build left it:")
        yield from (f"  {line}" for line in lines or _contents(form))
        yield from self._about_grades(form)
        if is_dry:
            yield "Nothing was written."
            return
        number = self._switch(form, lambda: self.archive.keep(form, after=self.number))
        yield f"This is release {number} now."
        if old:
            yield f"`make release UNIT={self.unit[:2]} ARGS=--undo` goes back to {old}."
        yield from self._what_to_do()

    def back(self, *, is_dry: bool) -> Iterator[str]:
        """Go back to the release before the one that counts; lines that say what changes."""
        if not self.number or not (after := self.archive.read(self.number).after):
            raise GradingError(f"{self.unit} has no release before the one that counts.")
        current, old = self.archive.read(self.number), self.archive.read(after)
        yield f"{self.unit}, back from {current} to {old}:"
        yield from (f"  {line}" for line in differences(current.form, old.form))
        yield from self._about_grades(old.form)
        if is_dry:
            yield "Nothing was written."
            return
        self._switch(old.form, lambda: old.number)
        yield f"This is release {old.number} again; release {current.number} stays in releases/."
        yield (
            "The text master, its notebooks and the checks are as they were: before you give the "
            f"unit out again, take its source back too, with git and `make build "
            f"UNIT={self.unit[:2]}`."
        )
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

    def _switch(self, form: Form, keep: Callable[[], int]) -> int:
        with lock(path_of(self.root, self.unit)):
            return self.store.take(self.unit, form, keep)

    def _about_grades(self, form: Form) -> Iterator[str]:
        """What becomes of the grades that are there."""
        found = self.store.standings(self.unit)
        worth = points_of(form.notebook)
        graded = {name for each in found for name in each.scores}
        if not found:
            return
        kept = len(graded & worth.keys())
        yield f"Grades of {len(found)} students in {kept} exercises stay as they are."
        if gone := sorted(graded - worth.keys()):
            yield f"Set aside, and back whenever the exercise is: grades of {', '.join(gone)}."
        aside = self.store.set_aside(self.unit)
        if back := sorted(worth.keys() & aside):
            yield f"Back again: the grades of {', '.join(back)} that were set aside."

    def _what_to_do(self) -> Iterator[str]:
        if num_graded := len(self.store.standings(self.unit)):
            yield (
                f"Now `make grade UNIT={self.unit[:2]}`: it grades the {num_graded} who handed in "
                "again, whichever release they had."
            )


def main(arguments: Sequence[str] | None = None, root: Path = ROOT) -> int:
    """Release, or go back, and say what has changed; 1 if it cannot."""
    parser = argparse.ArgumentParser(prog="make release", usage=USAGE, description=__doc__)
    parser.add_argument("unit", help="number or folder of the unit")
    parser.add_argument("--undo", action="store_true", help="go back to the release before")
    parser.add_argument("--dry-run", action="store_true", help="only say what would change")
    options = parser.parse_args(arguments)
    try:
        releasing = Releasing(root, options.unit)
        step = releasing.back if options.undo else releasing.forward
        for line in step(is_dry=options.dry_run):
            print(line)
    except GradingError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _contents(form: Form) -> list[str]:
    worth = points_of(form.notebook)
    return [f"{len(worth)} exercises with {sum(worth.values()):g} points"]


if __name__ == "__main__":
    sys.exit(main())
