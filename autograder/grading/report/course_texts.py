"""What the course itself has written for an exercise: given code, its solution, its package."""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from autograder import catalogue
from autograder.cells import cell_key, is_solution
from autograder.checking.lookup import check_of
from autograder.grading.program import Program, program_of, statements_of
from autograder.grading.report.fingerprints import (
    Fingerprints,
    Ngram,
    of_code,
    of_text,
    words,
)

SOLUTION = "the course's solution"
PACKAGE = "the course's package"
MIN_STATEMENTS = 3  # fewer may be the same by chance
MAX_CHARACTERS = 50_000  # of an answer; the longest solution has some 2,000


@dataclass(frozen=True, kw_only=True)
class CourseTexts:
    """The course's own texts for one exercise.

    Attributes:
        exercise: Its id.
        is_text: Whether it is answered in words.
        given_ngrams: N-grams of the release, which say nothing when an answer has them.
        given_statements: Statements of the release.
        given_words: All words of the release, which anybody may quote.
        answers: The course's own answers, by their names in the report.
    """

    exercise: str
    is_text: bool
    given_ngrams: frozenset[Ngram]
    given_statements: frozenset[Program]
    given_words: str
    answers: Mapping[str, str]

    def own(self, answer: str) -> Fingerprints:
        """The fingerprints of an answer without those of the release."""
        fingerprints = (of_text if self.is_text else of_code)(answer[:MAX_CHARACTERS])
        return fingerprints.without(self.given_ngrams, self.given_words)

    def original_of(self, answer: str) -> str:
        """Which of the course's answers code is word for word; '' if none, or if it is short.

        Comments, docstrings and layout do not count.
        """
        program = program_of(answer)
        own = {*statements_of(program)} - self.given_statements
        return self._programs.get(program, "") if len(own) >= MIN_STATEMENTS else ""

    @cached_property
    def _programs(self) -> Mapping[Program, str]:
        """The course's own answers in code, with their names."""
        answers = {} if self.is_text else self.answers
        return {program_of(answer): name for name, answer in answers.items()}


def course_texts_of(root: Path, unit: str) -> list[CourseTexts]:
    """The exercises of a unit, from its release, its solved notebook and the package.

    Args:
        root: The folder of the course.
        unit: The unit's folder name.
    """
    release, solved = (_read(root / place / unit) for place in ("notebooks", "solutions"))
    solutions = {cell_key(cell): cell.source for cell in solved.cells if is_solution(cell)}
    code, text = _given_ngrams(release)
    given = (program_of(cell.source) for cell in release.cells if cell.cell_type == "code")
    given_statements = frozenset(each for program in given for each in statements_of(program))
    given_words = " ".join(" ".join(words(cell.source)) for cell in release.cells)
    return [
        CourseTexts(
            exercise=cell_key(cell),
            is_text=cell.cell_type == "markdown",
            given_ngrams=text if cell.cell_type == "markdown" else code,
            given_statements=given_statements,
            given_words=given_words,
            answers={SOLUTION: solutions[cell_key(cell)]} | _of_package(cell_key(cell)),
        )
        for cell in release.cells
        if is_solution(cell)
    ]


def _read(folder: Path) -> NotebookNode:
    notebook: NotebookNode = nbformat.read(folder / f"{folder.name}.ipynb", as_version=4)
    return notebook


def _given_ngrams(release: NotebookNode) -> tuple[frozenset[Ngram], frozenset[Ngram]]:
    """The n-grams of a release, for answers in code and for answers in words."""
    code = (of_code(cell.source).ngrams for cell in release.cells if cell.cell_type == "code")
    text = (of_text(cell.source).ngrams for cell in release.cells)
    return frozenset().union(*code), frozenset().union(*text)


def _of_package(exercise: str) -> dict[str, str]:
    """What the package teaches of an exercise, which anybody can read, where there is one."""
    if catalogue.exercise(exercise).manual:
        return {}
    check = check_of(exercise)
    return {PACKAGE: inspect.getsource(check.reference())} if check.fallback else {}
