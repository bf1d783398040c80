"""What is known of the mistakes in answers to an exercise: numbers, and the question to ask.

A mistake is recognised by what it gives: where an answer shows the same wrong numbers in every case
that fails, its question is the hint.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from autograder.checking.plain_data import Plain, key_of

Case = dict[str, Plain]
"""Named sizes, in the order of the student's arguments."""

Number = int | float
Numbers = dict[str, Number]
ONLY = ""  # the one part of an answer that is a single number

WrongNumbers = Callable[[Case, Plain], Numbers]
"""From a case and the value of an answer to those of its numbers that are not right."""


class Mistake(Protocol):
    """A known mistake.

    Attributes:
        hint: The question that leads out of it.
        is_complete: Whether what it gives is all that goes wrong, so that an implementation with
            other wrong numbers beside these has another mistake.
        is_generated: Whether nobody chose it, so that it comes after all that somebody did.
    """

    @property
    def hint(self) -> str:
        """A sentence or two that end in a question."""

    @property
    def is_complete(self) -> bool:
        """Whether its numbers are all that go wrong in an implementation."""

    @property
    def is_generated(self) -> bool:
        """Whether nobody chose it."""

    def numbers(self, case: Case, wrong_numbers: WrongNumbers) -> Numbers:
        """What it gives in a case, in those parts of the answer that it is about."""


@dataclass(frozen=True)
class Symptom:
    """Wrong numbers that come about in many ways.

    Attributes:
        hint: Ends in a question.
        formula: Called with the values of a case, in order and as plain data: a model is a
            dictionary of sizes. Gives a number, or a dictionary with the parts of the answer that
            the mistake is about.
    """

    hint: str
    formula: Callable[..., Any]
    is_complete: ClassVar[bool] = False
    is_generated: ClassVar[bool] = False

    def numbers(self, case: Case, wrong_numbers: WrongNumbers) -> Numbers:
        """What the formula gives for the case."""
        return as_numbers(self.formula(*case.values()))


@dataclass(frozen=True)
class Recorded:
    """A mistake known by what it gave in each practice case, by the case's JSON."""

    hint: str
    is_complete: bool
    is_generated: bool
    recorded: Mapping[str, Numbers]

    def numbers(self, case: Case, wrong_numbers: WrongNumbers) -> Numbers:
        """What was recorded for the case."""
        return self.recorded.get(key_of(case), {})


def as_numbers(values: Plain) -> Numbers:
    """A single number as a dictionary with one part."""
    return values if isinstance(values, dict) else {ONLY: values}
