"""A cut of a model into stages, and how long its slowest stage takes."""

from typing import Any

from autograder.checking.exercise_check import call
from autograder.checking.fact import Case, Fact, Plain
from autograder.checking.plain_data import describe
from autograder.checking.result_form import WrongForm
from autograder.observers.tools import errors_as_data


@errors_as_data
def observe(answer: Any, case: Case) -> Plain:
    """The student's cut.

    Raises:
        WrongForm: If it is no list.
    """
    sizes: Any = call(answer, case)
    if not isinstance(sizes, list | tuple):
        raise WrongForm("a list of whole numbers", describe(sizes))
    return list(sizes)


def facts(case: Case, sizes: Plain, right: Plain) -> list[Fact]:
    """What a cut comes to; stages take pieces from the first to the last."""
    whole = [each if type(each) is int and each > 0 else 0 for each in sizes]
    slowest = start = 0
    for size in whole:
        slowest = max(slowest, sum(case["seconds"][start : start + size]))
        start += size
    return [
        Fact(
            "stages",
            len(sizes),
            "stages",
            "How many numbers does the exercise want?",
        ),
        Fact(
            "odd_sizes",
            whole.count(0),
            "stages without a whole number of pieces from 1 on",
            "What is the smallest number of pieces that a stage may have?",
        ),
        Fact(
            "pieces",
            sum(whole),
            "pieces on all stages together",
            "Is every piece of the model on exactly one stage?",
        ),
        Fact(
            "slowest",
            slowest,
            "seconds of the slowest stage",
            "Take a case with three pieces, and write down all its cuts. Which one is best, and "
            "which one do you take?",
        ),
    ]
