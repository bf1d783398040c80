"""A cut of a model into stages, and how long its slowest stage takes."""

from typing import Any

from autograder.checking.exercise_check import Case, call
from autograder.checking.plain_data import Plain, describe
from autograder.observing.observation import errors_as_data

LABELS = {
    "stages": "stages",
    "odd_sizes": "stages without a whole number of pieces from 1 on",
    "pieces": "pieces on all stages together",
    "slowest": "seconds of the slowest stage",
}


@errors_as_data
def observe(answer: Any, case: Case) -> Plain:
    """The student's cut.

    Raises:
        TypeError: If it is no list.
    """
    sizes: Any = call(answer, case)
    if not isinstance(sizes, list | tuple):
        raise TypeError(f"wanted a list of whole numbers, got {describe(sizes)}")
    return list(sizes)


def summarise(case: Case, sizes: Plain, right: Plain) -> dict[str, int]:
    """What a cut comes to; stages take pieces from the first to the last."""
    whole = [each if type(each) is int and each > 0 else 0 for each in sizes]
    slowest = start = 0
    for size in whole:
        slowest = max(slowest, sum(case["seconds"][start : start + size]))
        start += size
    return {
        "stages": len(sizes),
        "odd_sizes": whole.count(0),
        "pieces": sum(whole),
        "slowest": slowest,
    }
