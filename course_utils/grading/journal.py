"""What a grading run has done, one line at a time, so that a killed run goes on where it was.

A line with the result comes before the grade is written, a line that it is written comes after. A
key stands for all that a grade follows from: the submission, its unit's release, the grader, the
seeds. Half a line, as a killed run may leave one, is not read.
"""

import hashlib
import json
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from course_utils.grading.errors import GradingError
from course_utils.grading.result import Result

PACKAGE = Path(__file__).parents[1]


class Journal:
    """The journal of one unit."""

    def __init__(self, path: Path) -> None:
        """Read what is there."""
        self.path = path
        self.results: dict[str, Result] = {}
        self._stored: dict[str, str] = {}
        for entry in _lines(path):
            if "result" in entry:
                result = Result.from_json(entry["result"])
                self.results[result.student] = result
                self._stored.pop(result.student, None)
            else:
                self._stored[entry["student"]] = entry["stored"]

    def is_stored(self, student: str, key: str) -> bool:
        """Whether this very grade is in the gradebook."""
        return self._stored.get(student) == key

    def note_result(self, result: Result) -> None:
        """A submission is graded; its grade is not written yet."""
        self._append({"result": result.to_json()})
        self.results[result.student] = result

    def note_stored(self, student: str, key: str) -> None:
        """The grade is in the gradebook and its notebook in its place."""
        self._append({"student": student, "stored": key})
        self._stored[student] = key

    def _append(self, entry: dict[str, Any]) -> None:
        """Add a line that is on the disk when this returns."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab") as file:
            start = b"\n" if _ends_within_a_line(self.path) else b""
            file.write(start + json.dumps(entry).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())


def path_of(root: Path, unit: str) -> Path:
    """Where a course keeps the journal of a unit."""
    return root / "grading" / f"{unit}.jsonl"


def results_of(root: Path, unit: str) -> list[Result]:
    """The last result of every student, in the order of their names.

    Raises:
        GradingError: If nothing of the unit was graded.
    """
    path = path_of(root, unit)
    results = Journal(path).results
    if not results:
        raise GradingError(f"{path} holds nothing: `make grade UNIT={unit}` writes it.")
    return [results[student] for student in sorted(results)]


def key_of(*parts: bytes) -> str:
    """A key for a grade, from all that it follows from beside the grader itself."""
    digest = hashlib.sha256(_grader().encode())
    for part in parts:
        digest.update(hashlib.sha256(part).digest())
    return digest.hexdigest()


@cache
def _grader() -> str:
    """One hash over the package, which holds checks, judges and this grader."""
    digest = hashlib.sha256()
    for path in sorted([*PACKAGE.rglob("*.py"), *PACKAGE.glob("*.json")]):
        digest.update(path.relative_to(PACKAGE).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    if not path.exists():
        return
    with path.open("rb") as file:
        for line in file:
            try:
                yield json.loads(line)
            except ValueError:
                continue


def _ends_within_a_line(path: Path) -> bool:
    with path.open("rb") as file:
        if file.seek(0, os.SEEK_END) == 0:
            return False
        file.seek(-1, os.SEEK_END)
        return file.read(1) != b"\n"
