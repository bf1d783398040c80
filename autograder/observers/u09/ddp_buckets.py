"""What is observed of predicted buckets: two lists of bytes."""

from typing import Any

from autograder.checking.exercise_check import call
from autograder.checking.fact import Case, Fact, Plain
from autograder.checking.plain_data import describe
from autograder.checking.result_form import WrongForm
from autograder.observers.tools import errors_as_data

STEPS = ("the first step", "later steps")


@errors_as_data
def observe(answer: Any, case: Case) -> dict[str, Any]:
    """The bytes of the buckets, in the first step and in later ones."""
    returned = call(answer, case)
    if not isinstance(returned, list | tuple) or len(returned) != len(STEPS):
        raise WrongForm("two lists of bytes", describe(returned))
    for each in returned:
        if not isinstance(each, list | tuple):
            raise WrongForm("two lists of bytes", f"a list with {describe(each)} in it")
    return {name: list(each) for name, each in zip(STEPS, returned, strict=True)}


def facts(case: Case, observed: Plain, right: Plain) -> list[Fact]:
    """How many buckets each step has, and the bytes of each that there should be."""
    steps = right["steps"]
    first, later = (_with_room(observed[step], len(steps[step])) for step in STEPS)
    return [
        Fact(
            "buckets in the first step",
            len(observed["the first step"]),
            ask="Which limits end the buckets of the first step, and how does `finds_unused` "
            "change them?",
        ),
        *(
            Fact(
                f"bucket {number} in the first step",
                num_bytes,
                ask="Which parameters fill this bucket in the first step, which limit ends it, "
                "and in which place of the list does it stand?",
            )
            for number, num_bytes in enumerate(first, start=1)
        ),
        Fact(
            "buckets in later steps",
            len(observed["later steps"]),
            ask="Are the buckets rebuilt after the first step in this case, and if so, in which "
            "order and with which limits?",
        ),
        *(
            Fact(
                f"bucket {number} in later steps",
                num_bytes,
                ask="Which gradients fill this bucket if they come in the order of `arrival`, "
                "which limit ends it, and what does `finds_unused` change?",
            )
            for number, num_bytes in enumerate(later, start=1)
        ),
    ]


def _with_room(buckets: list[int], num_buckets: int) -> list[int]:
    """As many buckets as there should be; one that is missing has no bytes."""
    return [*buckets, *[0] * num_buckets][:num_buckets]
