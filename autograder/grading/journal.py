"""A write-ahead journal of a grading run, so that a killed run goes on where it was.

A line with the result comes before the grade is written to the gradebook; a line that it is stored
comes after. A key identifies everything that a grade depends on: the submission with all that
belongs to it, and the version of the course. Lines that cannot be parsed, such as the half line of
a killed run, are skipped.
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
from autograder.grading.result import SubmissionResult


@dataclass(frozen=True)
class Key:
    """What a grade depends on: a hash of the submission, and the course's version."""

    submission: str
    course: str


def grade_key(*parts: bytes) -> Key:
    """The key of a grade that this version of the course gives for the parts of a submission."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(hashlib.sha256(part).digest())
    return Key(digest.hexdigest(), course_version.of_course())


class Journal:
    """The journal of one unit."""

    def __init__(self, path: Path) -> None:
        """Read the file, if there is one."""
        self.path = path
        self.results: dict[str, SubmissionResult] = {}
        self._stored: dict[str, Key] = {}
        for line in path.read_bytes().splitlines() if path.exists() else ():
            with contextlib.suppress(ValueError, KeyError, TypeError):
                self._replay(json.loads(line))

    def is_stored(self, student: str, key: Key) -> bool:
        """Whether the grade with this key is in the gradebook."""
        return self._stored.get(student) == key

    def has_graded(self, student: str, key: Key) -> bool:
        """Whether the gradebook has a grade of this submission by any version of the course."""
        stored = self._stored.get(student)
        return stored is not None and stored.submission == key.submission

    def record_result(self, result: SubmissionResult) -> None:
        """Record a result before its grade is written."""
        self._append({"result": result.to_json()})
        self.results[result.student] = result

    def record_stored(self, student: str, key: Key) -> None:
        """Record that the grade is in the gradebook and the notebook in its folder."""
        self._append({"student": student, "stored": [key.submission, key.course]})
        self._stored[student] = key

    def _replay(self, entry: dict[str, Any]) -> None:
        if "result" in entry:
            result = SubmissionResult.from_json(entry["result"])
            self.results[result.student] = result
            self._stored.pop(result.student, None)
        elif entry["student"] in self.results:
            self._stored[entry["student"]] = Key(*entry["stored"])

    def _append(self, entry: dict[str, Any]) -> None:
        """Append a line that is on the disk when this returns."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab") as file:
            start = b"\n" if _ends_within_a_line(self.path) else b""
            file.write(start + json.dumps(entry).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())


@contextlib.contextmanager
def lock(path: Path) -> Iterator[None]:
    """Keep other processes from grading the unit of this journal.

    Raises:
        GradingError: If another process is grading it.
    """
    file_lock = FileLock(path.with_suffix(".lock"))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file_lock.acquire(timeout=0)
    except Timeout:
        raise GradingError(
            f"{path.stem} is being graded by another process: wait until it is done, or stop it."
        ) from None
    except OSError as error:
        raise GradingError(f"{path.parent} cannot be written ({error.strerror}).") from None
    try:
        yield
    finally:
        file_lock.release()


def path_of(root: Path, unit: str) -> Path:
    """The journal of a unit in a course's folder."""
    return root / "grading" / f"{unit}.jsonl"


def results_of(root: Path, unit: str) -> list[SubmissionResult]:
    """The last result of every student, sorted by student.

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
