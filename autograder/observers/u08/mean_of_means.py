"""How much one token of each sequence counts, in a list."""

from typing import Any

from autograder.checking import plain_data
from autograder.checking.exercise_check import call
from autograder.checking.fact import Case, Fact, Plain
from autograder.checking.result_form import WrongForm

WANTED = "a list of one number for each sequence"


def observe(answer: Any, case: Case) -> list[Any]:
    """The numbers that the answer returns.

    Raises:
        WrongForm: If that is not a list with one entry for each sequence.
    """
    got = call(answer, case)
    if type(got) is not list:
        raise WrongForm(WANTED, plain_data.describe(got))
    num_sequences = len(case["lengths"])
    if len(got) != num_sequences:
        raise WrongForm(f"{WANTED}, {num_sequences}", str(len(got)))
    return got


def facts(case: Case, observed: Plain, right: Plain) -> list[Fact]:
    """Each number under the name of its sequence."""
    return [
        Fact(
            name,
            each,
            f"a token of sequence {number}",
            "Which micro-batch does this sequence belong to, over how many tokens does that "
            "micro-batch take its mean, and how many such means does the rule add up?",
        )
        for number, (name, each) in enumerate(zip(right, observed, strict=True), 1)
    ]
