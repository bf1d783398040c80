"""A case with what the judge said of it, and the same case asked once more."""

from typing import NamedTuple

from autograder.checking.case_objects import case_in_words
from autograder.checking.mistakes import Case
from autograder.checking.verdict import CaseResult


class JudgedCase(NamedTuple):
    """One case, and what the judge said of it."""

    case: Case
    result: CaseResult

    @property
    def sizes(self) -> str:
        """The case as a student would type it."""
        return case_in_words(self.case)


class WhenAskedAgain(NamedTuple):
    """The first case that failed, once more; None where no value came.

    Attributes:
        first: The result among the other cases.
        again: The result of another call right after them.
        alone: The result of a call that finds nothing of those before.
    """

    first: CaseResult | None
    again: CaseResult | None
    alone: CaseResult | None

    @property
    def remembers(self) -> bool:
        """Whether what earlier calls have left makes the difference."""
        has_failed_again = self.again is None or not self.again.passed
        return has_failed_again and self.alone is not None and self.alone.passed

    @property
    def differs(self) -> bool:
        """Whether the same call gives other numbers."""
        if self.first is None or self.again is None:
            return False
        return repr(self.first.given) != repr(self.again.given)
