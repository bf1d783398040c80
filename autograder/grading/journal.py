"""What a grading run has done, one line at a time, so that a killed run goes on where it was.

A line with the result comes before the grade is written, a line that it is written comes after. A
key stands for all that a grade follows from: the work that was handed in with all that belongs to
it, and the version of the course. A line that cannot be understood, such as the half one that a
killed run may leave, is not read.
"""

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from autograder.grading import course_version
from autograder.grading.errors import GradingError
from autograder.grading.result import Result


@dataclass(frozen=True)
class Key:
    """What a grade follows from: a hash of the work, and the course's version."""

    work: str
    course: str


def key_of(*parts: bytes) -> Key:
    """The key of a grade that this version of the course gives for these parts of a work."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(hashlib.sha256(part).digest())
    return Key(digest.hexdigest(), course_version.of_course())


class Journal:
    """The journal of one unit."""

    def __init__(self, path: Path) -> None:
        """Read what is there."""
        self.path = path
        self.results: dict[str, Result] = {}
        self._stored: dict[str, Key] = {}
        for line in path.read_bytes().splitlines() if path.exists() else ():
            with contextlib.suppress(ValueError, KeyError, TypeError):
                self._take(json.loads(line))

    def is_stored(self, student: str, key: Key) -> bool:
        """Whether this very grade is in the gradebook."""
        return self._stored.get(student) == key

    def has_graded(self, student: str, key: Key) -> bool:
        """Whether some version of the course has graded this very work, down to the gradebook."""
        stored = self._stored.get(student)
        return stored is not None and stored.work == key.work

    def note_result(self, result: Result) -> None:
        """A submission is graded; its grade is not written yet."""
        self._append({"result": result.to_json()})
        self.results[result.student] = result

    def note_stored(self, student: str, key: Key) -> None:
        """The grade is in the gradebook and its notebook in its place."""
        self._append({"student": student, "stored": [key.work, key.course]})
        self._stored[student] = key

    def _take(self, entry: dict[str, Any]) -> None:
        if "result" in entry:
            result = Result.from_json(entry["result"])
            self.results[result.student] = result
            self._stored.pop(result.student, None)
        elif entry["student"] in self.results:
            self._stored[entry["student"]] = Key(*entry["stored"])

    def _append(self, entry: dict[str, Any]) -> None:
        """Add a line that is on the disk when this returns."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab") as file:
            start = b"\n" if _ends_within_a_line(self.path) else b""
            file.write(start + json.dumps(entry).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())


@contextlib.contextmanager
def held(path: Path) -> Iterator[None]:
    """While this lasts no other process grades the unit of this journal.

    Raises:
        GradingError: If another one does.
    """
    lock = FileLock(path.with_suffix(".lock"))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=0)
    except Timeout:
        raise GradingError(
            f"{path.stem} is being graded by another process: wait until it is done, or stop it."
        ) from None
    except OSError as error:
        raise GradingError(f"{path.parent} cannot be written ({error.strerror}).") from None
    try:
        yield
    finally:
        lock.release()


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


def _ends_within_a_line(path: Path) -> bool:
    with path.open("rb") as file:
        if file.seek(0, os.SEEK_END) == 0:
            return False
        file.seek(-1, os.SEEK_END)
        return file.read(1) != b"\n"
