"""One number that says what an implementation did, with its name in sentences and its question."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from autograder.checking.mistakes import Case
from autograder.checking.plain_data import Plain

__all__ = ["Case", "Fact", "Facts", "Plain"]  # what every observer needs


class Fact(NamedTuple):
    """A number of an implementation; it is compared with a measured one, or with 0.

    Attributes:
        name: What the measurement and known mistakes call it.
        value: Computed of what was observed.
        label: What it is called in sentences, where its name is not enough. One with a full stop is
            the sentence itself, of what should not be: "Expected 0 for it, got 1." would tell less.
        ask: The question where it is the first that is wrong and no mistake is recognised.
    """

    name: str
    value: int | float
    label: str = ""
    ask: str = ""


Facts = Callable[[Case, Plain, Plain], Iterable[Fact]]
"""Maps a case, what was observed and what is right to facts: first what comes first to a reader."""
