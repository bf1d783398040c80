"""Answers to the exercises, and whether their verdicts are what they have to be."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from autograder import catalogue
from autograder.checking import practice_pack
from autograder.checking.exercise_check import Check
from autograder.checking.lookup import check_of, practice_check_of
from autograder.checking.scoring import score_answer
from autograder.checking.seeds import AGAIN_SEEDS, PRACTICE_SEEDS
from autograder.exercises.model_answers import ChangedAnswer, model_answer
from tests.answer_bank import AnswerBank, bank_of, make


@dataclass(frozen=True, kw_only=True)
class Tried:
    """An answer and what its verdict has to be.

    Attributes:
        exercise: Its id.
        name: Which answer it is.
        make: Makes it.
        points: What it earns; None for all points.
        hint: What its hint contains.
        sentence: How its sentence begins.
        again: Whether on new sizes.
    """

    exercise: str
    name: str
    make: Callable[[], Any]
    points: float | None = None
    hint: str = ""
    sentence: str = ""
    again: bool = False

    @property
    def is_right(self) -> bool:
        """Whether it earns all points."""
        return self.points is None

    def complaint(self, check: Check | None = None) -> str:
        """What is wrong with its verdict on the practice cases; empty if nothing is.

        Args:
            check: The one to ask; else what students have.
        """
        check = check or practice_check_of(self.exercise, again=self.again)
        result = score_answer(check, self.make(), AGAIN_SEEDS if self.again else PRACTICE_SEEDS)
        all_points = catalogue.exercise(self.exercise).points
        verdict = result.verdict(self.exercise, all_points, tell_all=True)
        wanted = all_points if self.points is None else self.points
        is_told = self.hint in verdict.hint and verdict.sentence.startswith(self.sentence)
        if verdict.points == wanted and is_told:
            return ""
        text = str(verdict).replace("\n", " | ")
        told = f" and to be told {self.hint!r}" if self.hint else ""
        return f"{self.exercise}, {self.name}: it has to earn {wanted:g} points{told}; {text}"


def answers(kinds: Sequence[str], exercises: str) -> Iterator[Tried]:
    """All answers of some kinds to the exercises whose ids begin so."""
    ids = (item.id for unit in catalogue.units() for item in unit.exercises if not item.manual)
    for exercise in filter(lambda each: each.startswith(exercises), ids):
        bank = bank_of(exercise)
        for kind in kinds:
            yield from KINDS[kind](exercise, bank)


def _model(exercise: str, bank: AnswerBank) -> Iterator[Tried]:
    name = "the model answer"
    yield Tried(exercise=exercise, name=name, make=lambda: model_answer(exercise))
    if practice_pack.is_recorded(exercise, again=True):
        yield Tried(exercise=exercise, name=name, make=lambda: model_answer(exercise), again=True)


def _right(exercise: str, bank: AnswerBank) -> Iterator[Tried]:
    for number, source in enumerate(bank.right):
        name = f"right answer {number}"
        yield Tried(exercise=exercise, name=name, make=lambda s=source: make(s, bank.function))


def _wrong(exercise: str, bank: AnswerBank) -> Iterator[Tried]:
    for each in bank.wrong:
        yield Tried(
            exercise=exercise,
            name=each.name,
            make=lambda each=each: make(each.source, bank.function),
            points=each.points,
            hint=each.hint,
        )


def _edits(exercise: str, bank: AnswerBank) -> Iterator[Tried]:
    for number, each in enumerate(check_of(exercise).judge.mistakes):
        if isinstance(each, ChangedAnswer) and not each.is_generated:
            yield Tried(
                exercise=exercise,
                name=f"edit {number}",
                make=lambda each=each: each.answer,
                points=each.points,
                hint=each.hint,
            )


KINDS: dict[str, Callable[[str, AnswerBank], Iterator[Tried]]] = {
    "model": _model,
    "right": _right,
    "wrong": _wrong,
    "edits": _edits,
}
