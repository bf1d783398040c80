"""What a judge says about one case, and about a whole answer.

A `CaseResult` is about one case. A `Verdict` sums up all of them: points, one sentence, one hint
that ends in a question; it shows itself as text and as HTML. `Points` are its number, which a
notebook shows as the verdict.
"""

import html
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from autograder import catalogue
from course_utils import colours

LONG = 400  # letters of a case that would push the hint out of sight


class Hints(Protocol):
    """Hints in order; whether one of them explains a result may be asked by itself."""

    def __iter__(self) -> Iterator[str]:
        """All that explain a result, the most telling first."""

    def __contains__(self, hint: object, /) -> bool:
        """Whether a hint explains the result."""


@dataclass(frozen=True, kw_only=True)
class CaseResult:
    """How an answer did in one case.

    Attributes:
        right: For every part of the answer, whether it was right.
        sentence: What was wanted and what came, for the first wrong part.
        hints: Hints that explain this result, the most telling first: a tuple, or `Explanations`.
        remark: Something worth saying about a right answer.
        ratio: Got over wanted, for the first wrong part.
        wanted: The right numbers, by part; none where no number can be compared.
        given: The answer's, by part.
        wrong_names: The numbers that are not the right ones, but for rounding.
        first_wrong: The name of the first number that is not right.
        question: What to ask about that number where no mistake is recognised.
    """

    right: Mapping[str, bool]
    sentence: str = ""
    hints: Hints = ()
    remark: str = ""
    ratio: float | None = None
    wanted: Mapping[str, int | float] = field(default_factory=dict)
    given: Mapping[str, int | float] = field(default_factory=dict)
    wrong_names: frozenset[str] = frozenset()
    first_wrong: str = ""
    question: str = ""

    @property
    def passed(self) -> bool:
        """Whether every part was right."""
        return all(self.right.values())

    @property
    def wrong_part(self) -> str | None:
        """The first wrong number of a formula; None for an implementation."""
        if self.right.keys() != self.wanted.keys():
            return None
        return next((name for name, is_right in self.right.items() if not is_right), None)


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What a check says about an answer.

    Attributes:
        exercise: Id of the exercise.
        points: Points earned, out of ``max_points``.
        sentence: What happened, in one sentence.
        sizes: The sizes that the sentence is about.
        another: A second case in numbers.
        hint: A question that leads on; empty if all is well.
        figure: A picture of all cases, as HTML.
        written: False while the answer is still the stub.
        hidden: Whether the sizes were those of grading.
        is_again: Whether they were new ones of an exercise that was passed.
        judged: False where the check itself failed, so that a person has to judge the answer.
    """

    exercise: str
    points: float
    max_points: float
    sentence: str
    sizes: str = ""
    another: str = ""
    hint: str = ""
    figure: str = ""
    written: bool = True
    hidden: bool = False
    is_again: bool = False
    judged: bool = True

    @property
    def passed(self) -> bool:
        """Whether the answer earns all its points."""
        return 0 < self.max_points == self.points

    def __str__(self) -> str:
        """The verdict as text: mark, points, sentence, hint; a long case comes last."""
        case = [f"Case: `{self.sizes}`"] if self._has_long_case else []
        return "\n".join([f"{self._mark} {self._title}: {self._points}", *self._lines, *case])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        # Words have the colour of the page, so that they can be read on dark ones too.
        colour = colours.RIGHT if self.passed else colours.WRONG if self.written else colours.OPEN
        lines = "".join(f"<div>{_marked_up(line)}</div>" for line in self._lines)
        if self._has_long_case:
            case = f"<code>{html.escape(self.sizes, quote=False)}</code>"
            lines += f"<details><summary>Case</summary>{case}</details>"
        return (
            f'<div style="border-left: 6px solid {colour}; border-radius: 4px; '
            f'background: {colour}12; padding: 6px 14px; max-width: 980px">'
            '<div style="display: flex; flex-wrap: wrap; justify-content: space-between; '
            f'gap: 0 18px"><b><span style="color: {colour}">{self._mark}</span> '
            f"{html.escape(self._title)}</b><b>{self._points}</b></div>{lines}{self.figure}</div>"
        )

    @property
    def _mark(self) -> str:
        return "✓" if self.passed else "✗" if self.written else "○"

    @property
    def _title(self) -> str:
        where = " on hidden sizes" if self.hidden else " on new sizes" if self.is_again else ""
        return catalogue.title_of(self.exercise) + where

    @property
    def _points(self) -> str:
        unit = "point" if self.max_points == 1 else "points"
        points = f"{self.points:g} of {self.max_points:g} {unit}"
        if self.is_again:
            return f"{points} here; yours stay"
        # A person may have given other points, shown above.
        return f"the check gives {points}" if self.hidden else points

    @property
    def _has_long_case(self) -> bool:
        return is_long(self.sizes)

    @property
    def _lines(self) -> list[str]:
        sizes = [f"Sizes: `{self.sizes}`"] if self.sizes and not self._has_long_case else []
        another = [self.another] if self.another else []
        hint = [f"Hint: {self.hint}"] if self.hint else []
        return [self.sentence, *sizes, *another, *hint]


def is_long(case: str) -> bool:
    """Whether a case in words is so long that a reader would not find what stands below it."""
    return len(case) > LONG


class Points(float):
    """Points earned, which a notebook shows as their verdict.

    One output serves all: nbgrader reads the number in its ``text/plain``, a reader sees the box.
    """

    verdict: Verdict

    def __new__(cls, verdict: Verdict) -> "Points":
        """The points of a verdict."""
        points = super().__new__(cls, verdict.points)
        points.verdict = verdict
        return points

    def __reduce__(self) -> tuple[type[float], tuple[float]]:
        """A plain float, wherever they are copied or sent."""
        return float, (float(self),)

    def _repr_html_(self) -> str:
        return self.verdict._repr_html_()


def _marked_up(line: str) -> str:
    """A line as HTML: `code` as code, and the word that it begins with in bold."""
    code = re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(line, quote=False))
    return re.sub(r"^(Right|Hint):", r"<b>\1:</b>", code)
