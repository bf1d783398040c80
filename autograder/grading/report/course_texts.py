"""What has the course itself written for an exercise: given code, its solution, its package?"""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from autograder import catalogue
from autograder.checking import notebook_calls
from autograder.grading.report.fingerprints import (
    Fingerprint,
    Fingerprints,
    of_code,
    of_text,
    words,
)
from autograder.student.merge_answers import is_solution, key

SOLUTION = "the course's solution"
PACKAGE = "the course's package"
LONGEST = 50_000  # letters of an answer that are looked at; the longest solution has some 2,000


@dataclass(frozen=True, kw_only=True)
class CourseTexts:
    """One exercise as the course knows it.

    Attributes:
        exercise: Its id.
        is_text: Whether it is answered in words.
        given_runs: Pieces of the release: no sign of anything when they stand in an answer.
        given_words: All words of the release, which anybody may quote.
        answers: The course's own answers by what they are called.
    """

    exercise: str
    is_text: bool
    given_runs: frozenset[Fingerprint]
    given_words: str
    answers: Mapping[str, str]

    def own(self, answer: str) -> Fingerprints:
        """The pieces of an answer that were not given."""
        pieces = (of_text if self.is_text else of_code)(answer[:LONGEST])
        return pieces.without(self.given_runs, self.given_words)


def course_texts_of(root: Path, unit: str) -> list[CourseTexts]:
    """The exercises of a unit, from its release, its solved notebook and the package.

    Args:
        root: The folder of the course.
        unit: The unit's folder name.
    """
    release, solved = (_read(root / place / unit) for place in ("notebooks", "solutions"))
    solutions = {key(cell): cell.source for cell in solved.cells if is_solution(cell)}
    code, text = _given_runs(release)
    given_words = " ".join(" ".join(words(cell.source)) for cell in release.cells)
    return [
        CourseTexts(
            exercise=key(cell),
            is_text=cell.cell_type == "markdown",
            given_runs=text if cell.cell_type == "markdown" else code,
            given_words=given_words,
            answers={SOLUTION: solutions[key(cell)]} | _of_package(key(cell)),
        )
        for cell in release.cells
        if is_solution(cell)
    ]


def _read(folder: Path) -> NotebookNode:
    notebook: NotebookNode = nbformat.read(folder / f"{folder.name}.ipynb", as_version=4)
    return notebook


def _given_runs(release: NotebookNode) -> tuple[frozenset[Fingerprint], frozenset[Fingerprint]]:
    """What a release gives to those who answer in code, and in words."""
    code = (of_code(cell.source).runs for cell in release.cells if cell.cell_type == "code")
    text = (of_text(cell.source).runs for cell in release.cells)
    return frozenset().union(*code), frozenset().union(*text)


def _of_package(exercise: str) -> dict[str, str]:
    """The function that the course's package holds for an exercise, which anybody can read."""
    if catalogue.exercise(exercise).manual:
        return {}
    return {PACKAGE: inspect.getsource(notebook_calls.find(exercise).reference)}
