"""Which units and exercises does the course have, and what is each worth?

The build writes the catalogue from the text masters, where points are declared once.

    >>> exercise("u01-matmul-flops").points
    2.0
"""

import difflib
import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("catalogue.json")


class UnknownExercise(KeyError):
    """An exercise id that the catalogue does not hold."""

    def __str__(self) -> str:
        """The sentence, without the quotes that KeyError puts around it."""
        return str(self.args[0])


@dataclass(frozen=True, kw_only=True)
class Exercise:
    """One exercise: its id in words, its points, and what its card says.

    Attributes:
        function: What the student's cell defines; empty for an answer in words.
        manual: Whether a person reads it.
        graded_cell: Id of the cell that holds the points.
    """

    id: str
    title: str
    function: str
    points: float
    minutes: int
    difficulty: int
    importance: int
    extra: bool
    manual: bool
    graded_cell: str

    @property
    def check_module(self) -> str:
        """Where its check is: that of ``u01-model-flops`` in ``autograder.exercises.u01``."""
        return f"autograder.exercises.{self.id.partition('-')[0]}"


@dataclass(frozen=True, kw_only=True)
class Unit:
    """One unit of the course: one notebook in one folder."""

    folder: str
    title: str
    minutes: int
    device: str
    lecture: tuple[str, ...]
    exercises: tuple[Exercise, ...]

    @property
    def number(self) -> str:
        """The two digits that its folder and its exercises' ids begin with."""
        return self.folder[:2]


@cache
def units() -> tuple[Unit, ...]:
    """All units in the order of their numbers."""
    entries = json.loads(FILE.read_text(encoding="utf-8"))
    return tuple(_unit(entry) for entry in entries)


def by_graded_cell() -> dict[str, Exercise]:
    """Every exercise by the name of the cell that holds its points."""
    return {item.graded_cell: item for unit in units() for item in unit.exercises}


def _unit(entry: dict[str, Any]) -> Unit:
    exercises = tuple(Exercise(**item) for item in entry["exercises"])
    return Unit(**entry | {"lecture": tuple(entry["lecture"]), "exercises": exercises})


def title_of(exercise_id: str) -> str:
    """The title of an exercise on its card; the id where the catalogue does not hold it."""
    try:
        return exercise(exercise_id).title
    except UnknownExercise:
        return exercise_id


def exercise(exercise_id: str) -> Exercise:
    """The exercise with this id.

    Raises:
        UnknownExercise: If there is none; the message names the nearest ids.
    """
    known = {item.id: item for unit in units() for item in unit.exercises}
    if exercise_id in known:
        return known[exercise_id]
    near = difflib.get_close_matches(exercise_id, known, n=3)
    hint = f"near it: {', '.join(near)}" if near else f"known: {', '.join(known)}"
    raise UnknownExercise(f"there is no exercise {exercise_id!r}; {hint}")
