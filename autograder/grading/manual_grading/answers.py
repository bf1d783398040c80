"""Everything that handed-in answers of a unit are read with, and no name of who wrote them.

Texts and verdicts are those of the last grading, points and comments those of the gradebook. A
student is a number in the order of nbgrader's random ids; who is new gets the next one.
"""

import hashlib
import re
import threading
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import nbformat

from autograder import catalogue
from autograder.catalogue import Exercise, Unit
from autograder.cells import cell_key, is_solution
from autograder.checking.verdict import Verdict
from autograder.grading.errors import GradingError
from autograder.grading.gradebook.course_table import graded_units, results_of
from autograder.grading.manual_grading.grouping import differences, groups_of
from autograder.grading.manual_grading.marks import Change, Graded, Mark, Marks
from autograder.grading.manual_grading.rubric import Rubric, rubric_of
from autograder.grading.same_code import program_of

HEADING = re.compile(r"^### .*$", re.MULTILINE)  # of an exercise's card
MAX_SHOWN = 20_000  # characters of an answer on a page; nobody asks for a tenth of it
SYMBOLS = {"full": "✓", "part": "◐", "no": "✗", "blank": "○", "waits": "?"}


@dataclass(frozen=True, kw_only=True)
class Answer:
    """One answer of a student who is a number.

    Attributes:
        text: As handed in; empty where the submission could not be read.
        verdict: What the check says; None for a text.
    """

    number: int
    exercise: Exercise
    text: str
    verdict: Verdict | None
    graded: Graded

    @property
    def is_written(self) -> bool:
        """Whether there is anything to read: a text that is still the stub has 0 by the grader."""
        mark = self.graded.mark
        written = self.verdict.written if self.verdict else self.graded.auto_score is None
        return written or mark.waits or mark.score is not None

    @property
    def points(self) -> float | None:
        """Points that count, without extra credit; None as long as there are none."""
        given = self.graded.mark.score
        return self.graded.auto_score if given is None else given

    @property
    def state(self) -> str:
        """A key of `SYMBOLS`."""
        if self.graded.mark.waits or self.points is None:
            return "waits"
        if not self.is_written:
            return "blank"
        return "full" if self.points >= self.graded.max_points else "part" if self.points else "no"

    @property
    def symbol(self) -> str:
        """Its state at a glance."""
        return SYMBOLS[self.state]

    @property
    def shown(self) -> str:
        """Its text on a page, which one answer must not make long for all others."""
        if (more := len(self.text) - MAX_SHOWN) <= 0:
            return self.text
        left_out = f"({more:,} more characters are left out here; formgrader shows them.)"
        return f"{self.text[:MAX_SHOWN]}\n\n{left_out}"

    @property
    def said(self) -> str:
        """What the check says, in one line."""
        if self.verdict is None:
            return "not written" if self.state == "blank" else "an answer in words"
        points = f"{self.verdict.points:g} of {self.verdict.max_points:g}."
        return " ".join(filter(None, (points, self.verdict.sentence, self.verdict.hint)))

    @cached_property
    def version(self) -> str:
        """What a mark belongs to: other text or points by the check make another version."""
        seen = f"{self.text}\0{self.verdict.points if self.verdict else ''}"
        return hashlib.sha256(seen.encode(errors="backslashreplace")).hexdigest()[:16]

    def to_json(self) -> dict[str, Any]:
        """What a page has to know to change its mark, `checked` being the points by the check."""
        checked = self.verdict and self.verdict.points
        return {"version": self.version, "mark": self.graded.mark.to_json(), "checked": checked}


@dataclass(frozen=True)
class Card:
    """Answers that are read together, with the same mark: like texts, or the same program."""

    answers: Sequence[Answer]

    @property
    def in_pieces(self) -> list[tuple[Answer, list[tuple[str, bool]]]]:
        """Each with its text in pieces, and whether a piece differs from the first text."""
        first = self.answers[0].shown
        return [(each, differences(each.shown, first)) for each in self.answers]


@dataclass(frozen=True)
class Prompt:
    """What is asked, and what the course would answer: notebook markdown, with its rubric."""

    question: str
    model_answer: str
    rubric: Rubric


class Answers:
    """The answers of a course's class, for one reader or several."""

    def __init__(self, root: Path) -> None:
        self.root, self.marks = root, Marks(root)
        self._numbering, self._numbers = threading.Lock(), dict[str, dict[str, int]]()

    def units(self) -> list[Unit]:
        """Units of which something was graded."""
        found = graded_units(self.root)
        return [each for each in catalogue.units() if each.folder in found]

    def of_unit(self, unit: Unit) -> dict[int, dict[str, Answer]]:
        """Every student's answers by exercise, under the student's number.

        Raises:
            GradingError: If nothing was graded, or it cannot be read.
        """
        results = {each.student: each for each in results_of(self.root, unit.folder)}
        graded = [each for each in self.marks.of_unit(unit.folder) if each.student in results]
        numbers = self._numbered(unit.folder, {each.submission for each in graded})
        exercises = {item.graded_cell: item for item in unit.exercises}
        table: dict[int, dict[str, Answer]] = {number: {} for number in sorted(numbers.values())}
        for each in graded:
            if item := exercises.get(each.cell):
                result, number = results[each.student], numbers[each.submission]
                table[number][item.id] = Answer(
                    number=number,
                    exercise=item,
                    text=result.answers.get(item.id, ""),
                    verdict=next((v for v in result.verdicts if v.exercise == item.id), None),
                    graded=each,
                )
        return {number: row for number, row in table.items() if row}

    def to_read(self, unit: Unit, exercise: Exercise) -> list[Answer]:
        """The written answers to one exercise, by number."""
        found = (row.get(exercise.id) for row in self.of_unit(unit).values())
        return [each for each in found if each and each.is_written]

    def change(self, unit: Unit, exercise: Exercise, changes: Iterable[Any]) -> None:
        """Change marks as a page asks for it: ``{"id", "version", "seen", "wanted"}`` each.

        Raises:
            GradingError: If an answer is another one by now, or a mark is none.
            ChangedMeanwhileError: If a mark is not as it was seen; nothing was written.
        """
        answers = {each.graded.id: each for each in self.to_read(unit, exercise)}
        wanted = []
        for entry in changes:
            match entry:
                case {"id": id_, "version": version, "seen": seen, "wanted": mark}:
                    pass
                case _:
                    raise GradingError(f"This is no change of a mark: {entry!r}.")
            answer = answers.get(id_)
            if answer is None or answer.version != version:
                raise GradingError(
                    "This answer was graded again since the page was loaded, so nothing was "
                    "written: load the page anew (F5) and read it again."
                )
            wanted.append(Change(answer.graded, Mark.from_json(seen), Mark.from_json(mark)))
        self.marks.change(wanted)

    def prompt(self, unit: Unit, exercise: Exercise) -> Prompt:
        """The exercise's card in the solved notebook, and the model answer below it."""
        path = self.root / "solutions" / unit.folder / f"{unit.folder}.ipynb"
        cells = nbformat.read(path, as_version=4).cells if path.is_file() else []
        question = ""
        for cell in cells:
            if cell_key(cell) == exercise.id and is_solution(cell):
                said = cell.source if exercise.manual else f"```python\n{cell.source}\n```"
                rubric = rubric_of(said, exercise.points) if exercise.manual else Rubric()
                return Prompt(question, said, rubric)
            if HEADING.search(cell.source) and cell.cell_type == "markdown":
                question = HEADING.split(cell.source)[-1].replace("</div>", "")
        return Prompt("", "", Rubric())

    def _numbered(self, unit: str, submissions: set[str]) -> dict[str, int]:
        with self._numbering:
            numbers = self._numbers.setdefault(unit, {})
            for each in sorted(submissions - numbers.keys()):
                numbers[each] = len(numbers) + 1
            return {each: numbers[each] for each in submissions}


def cards_of(answers: Sequence[Answer]) -> list[Card]:
    """Like answers with the same mark as one card, in the order of their first numbers."""
    texts = [n for n, each in enumerate(answers) if each.verdict is None]
    kinds: dict[int, Hashable] = {
        texts[n]: first
        for first, *others in groups_of([answers[n].text for n in texts])
        for n in (first, *others)
    }
    cards: dict[Hashable, list[Answer]] = {}
    for n, each in enumerate(answers):
        kind = _judged(each.text, each.verdict) if each.verdict else kinds[n]
        cards.setdefault((kind, each.graded.mark), []).append(each)
    return [Card(each) for each in cards.values()]


def _judged(code: str, verdict: Verdict) -> Hashable:
    """What answers in code share on a card: the program, and all that the check says of it."""
    told = (verdict.points, verdict.written, verdict.sentence, verdict.hint)
    return program_of(code), told


def saved_comments(answers: Iterable[Answer]) -> list[str]:
    """Paragraphs of the comments that were given for an exercise, the most frequent first."""
    given = Counter(
        paragraph.strip()
        for each in answers
        for paragraph in each.graded.mark.comment.split("\n\n")
        if paragraph.strip()
    )
    return [text for text, _ in sorted(given.items(), key=lambda item: (-item[1], item[0]))]
