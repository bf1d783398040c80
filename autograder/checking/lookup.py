"""Find the check of an exercise: the staff's, the one for grades, or the one for practice."""

import importlib
from dataclasses import replace
from functools import cache, partial

from autograder import catalogue
from autograder.checking import practice_pack
from autograder.checking.exercise_check import DECLARED, Check
from autograder.checking.hidden_cases import hidden_cases


def check_of(exercise: str) -> Check:
    """The check of an exercise, from the module of its unit.

    Raises:
        UnknownExercise: If the catalogue holds no such exercise.
        LookupError: If the module declares no check of it.
    """
    module = catalogue.exercise(exercise).check_module
    importlib.import_module(module)
    if exercise not in DECLARED:
        raise LookupError(
            f"{module} declares no check of {exercise}: "
            f'begin one with @declares_check("{exercise}", …)'
        )
    return DECLARED[exercise]


def graded_check_of(exercise: str) -> Check:
    """The check of an exercise with the hidden cases of a grade.

    Raises:
        UnknownExercise: If the catalogue holds no such exercise.
    """
    check = check_of(exercise)
    return replace(check, cases=partial(hidden_cases, check))


@cache
def practice_check_of(exercise: str, *, again: bool = False) -> Check:
    """The check that students have: made of its practice pack, or the staff's where none is.

    Args:
        exercise: Its id.
        again: Whether on its new sizes; where there are none, on the first ones.

    Raises:
        UnknownExercise: If the catalogue holds no such exercise.
    """
    if practice_pack.is_recorded(exercise, again=again):
        return practice_pack.load(exercise, again=again)
    return practice_check_of(exercise) if again else check_of(exercise)
