"""What is observed of predicted buckets: two lists of bytes."""

from typing import Any

from autograder.checking.exercise_check import Case, call
from autograder.checking.plain_data import Plain, describe
from autograder.observing.observation import errors_as_data

STEPS = ("the first step", "later steps")


@errors_as_data
def observe(answer: Any, case: Case) -> dict[str, Any]:
    """The bytes of the buckets, in the first step and in later ones."""
    returned = call(answer, case)
    if not isinstance(returned, list | tuple) or len(returned) != len(STEPS):
        raise TypeError(f"wanted two lists of bytes, got {describe(returned)}")
    for each in returned:
        if not isinstance(each, list | tuple):
            raise TypeError(f"wanted two lists of bytes, one of them is {describe(each)}")
    return {name: list(each) for name, each in zip(STEPS, returned, strict=True)}


def numbers(steps: dict[str, list[int]], like: dict[str, list[int]]) -> dict[str, int]:
    """How many buckets each step has, and the bytes of each that there should be."""
    found: dict[str, int] = {}
    for step, buckets in like.items():
        given = [*steps[step], *[0] * len(buckets)]
        found[f"buckets in {step}"] = len(steps[step])
        found |= {f"bucket {n + 1} in {step}": given[n] for n in range(len(buckets))}
    return found


def summarise(case: Case, observed: Plain, right: Plain) -> Plain:
    """The numbers of buckets and their bytes, beside what is right."""
    return numbers(observed, right["steps"])
