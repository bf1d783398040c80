"""Find the check of an exercise: the staff's, which measures, or the one for practice."""

import importlib
from functools import cache

from autograder import catalogue
from autograder.checking import practice_pack
from autograder.checking.exercise_check import Check


def check_of(exercise: str) -> Check:
    """The check of an exercise, from the module named after it.

    Raises:
        UnknownExercise: If the catalogue holds no such exercise.
    """
    check: Check = importlib.import_module(catalogue.exercise(exercise).check_module).CHECK
    return check


@cache
def practice_check_of(exercise: str, *, again: bool = False) -> Check:
    """The check that students have: made of its practice pack, or the staff's where none is.

    Args:
        exercise: Its id.
        again: Whether on its new sizes.

    Raises:
        UnknownExercise: If the catalogue holds no such exercise.
    """
    if practice_pack.is_recorded(exercise, again=again):
        return practice_pack.load(exercise, again=again)
    return check_of(exercise)
