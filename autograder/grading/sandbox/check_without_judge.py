"""What the sandbox has of a check: how an answer is observed, and nothing of what is right."""

from autograder.checking import practice_pack
from autograder.checking.exercise_check import Check
from autograder.checking.lookup import check_of
from autograder.grading.sandbox.kept_code import NOTHING, for_observing


def check_without_judge(exercise: str) -> Check:
    """The check of an exercise without judge and cases; where it has no pack, the staff's.

    Raises:
        UnknownExercise: If the catalogue holds no such exercise.
    """
    if not practice_pack.is_recorded(exercise):
        return for_observing(check_of(exercise))
    return Check(cases=NOTHING, judge=NOTHING, **practice_pack.how_observed(exercise))
