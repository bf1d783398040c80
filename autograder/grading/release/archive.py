"""Released forms of a unit: numbered copies in `releases/`, none of which is changed or removed.

The gradebook says which of them counts, so that a copy of it brings its release along.
"""

import contextlib
import json
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from pathlib import Path

import nbformat
from nbconvert.preprocessors import ClearOutputPreprocessor
from nbformat import NotebookNode

from autograder.files import write_synced
from autograder.grading.errors import GradingError

INSTRUCTOR, ABOUT = "instructor.ipynb", "about.json"
NAME = re.compile(r"(\d{3,})-(\d{4}-\d\d-\d\d)")


@dataclass(frozen=True)
class Form:
    """A form of a unit.

    Attributes:
        release: The notebook that students get, as JSON.
        instructor: The notebook that it was made from, without outputs, as JSON.
        checks: For each checked exercise hashes of its check with all that it uses.
    """

    release: str
    instructor: str
    checks: Mapping[str, list[str]]

    @cached_property
    def notebook(self) -> NotebookNode:
        """The notebook that students get."""
        notebook: NotebookNode = nbformat.reads(self.release, as_version=4)
        return notebook


@dataclass(frozen=True)
class Release:
    """A form that was released.

    Attributes:
        number: Its number, from 1.
        day: When, as ``2027-03-01``.
    """

    form: Form
    number: int
    day: str

    def __str__(self) -> str:
        """Its number and its day."""
        return f"release {self.number} of {self.day}"


class Archive:
    """The releases of one unit."""

    def __init__(self, root: Path, unit: str) -> None:
        self.unit, self.folder = unit, root / "releases" / unit

    def numbers(self) -> list[int]:
        """Their numbers, in order."""
        return sorted(self._folders())

    def read(self, number: int) -> Release:
        """A release.

        Raises:
            GradingError: If its files are not there.
        """
        try:
            folder = self._folders()[number]
            about = json.loads((folder / ABOUT).read_text("utf-8"))
            release, instructor = ((folder / name).read_text("utf-8") for name in self._notebooks)
        except (KeyError, OSError, ValueError):
            raise GradingError(
                f"Release {number} of {self.unit} is not whole in {self.folder}: put that folder "
                f"back from a copy, or release the unit anew with `make release "
                f"UNIT={self.unit[:2]}`."
            ) from None
        form = Form(release, instructor, about["checks"])
        return Release(form, number, folder.name.partition("-")[2])

    def others(self, number: int) -> tuple[str, ...]:
        """The notebooks that students got by other releases, the latest first."""
        whole = (self._if_whole(each) for each in reversed(self.numbers()) if each != number)
        return tuple(each.form.release for each in whole if each)

    def keep(self, form: Form) -> int:
        """Write a release, unless the last one is the same; its number."""
        last = max(self.numbers(), default=0)
        known = self._if_whole(last)  # of a run that was killed
        if known and known.form == form:
            return last
        name = f"{last + 1:03}-{date.today():%Y-%m-%d}"
        beside = self.folder / f".{name}.writing"
        shutil.rmtree(beside, ignore_errors=True)  # of a run that was killed
        beside.mkdir(parents=True)
        about = {"checks": form.checks}
        texts = (form.release, form.instructor, json.dumps(about, indent=1) + "\n")
        for file, text in zip((*self._notebooks, ABOUT), texts, strict=True):
            write_synced(beside / file, text.encode())
        beside.rename(self.folder / name)
        return last + 1

    def _if_whole(self, number: int) -> Release | None:
        with contextlib.suppress(GradingError):
            return self.read(number)
        return None

    @property
    def _notebooks(self) -> tuple[str, str]:
        return f"{self.unit}.ipynb", INSTRUCTOR

    def _folders(self) -> dict[int, Path]:
        found = ((NAME.fullmatch(path.name), path) for path in self.folder.glob("*"))
        return {int(match[1]): path for match, path in found if match}


def built(root: Path, unit: str) -> Form:
    """The form in which `make build` left a unit.

    Raises:
        GradingError: If one of its notebooks is not there.
    """
    release, instructor = (
        root / place / unit / f"{unit}.ipynb" for place in ("notebooks", "solutions")
    )
    for path, why in ((release, "students get it"), (instructor, "the gradebook takes its cells")):
        if not path.is_file():
            raise GradingError(
                f"{path} is not there: {why}. `make build UNIT={unit[:2]}` makes it again."
            )
    recorded = root / "solutions" / "practice.json"
    checks = json.loads(recorded.read_text("utf-8")) if recorded.exists() else {}
    of_unit = {name: each for name, each in checks.items() if name.startswith(f"u{unit[:2]}-")}
    return Form(release.read_text("utf-8"), _without_outputs(instructor), of_unit)


def _without_outputs(path: Path) -> str:
    notebook, _ = ClearOutputPreprocessor().preprocess(nbformat.read(path, as_version=4), {})
    text: str = nbformat.writes(notebook)
    return text
