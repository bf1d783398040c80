"""Find the check of an exercise."""

import importlib

from autograder import catalogue
from autograder.checking.exercise_check import Check


def check_of(exercise: str) -> Check:
    """The check of an exercise, from the module named after it.

    Raises:
        UnknownExercise: If the catalogue holds no such exercise.
    """
    check: Check = importlib.import_module(catalogue.exercise(exercise).check_module).CHECK
    return check
