"""What a judge says about one case, and about a whole answer.

A `CaseResult` is about one case. A `Verdict` sums up all of them: points, one sentence, one hint
that ends in a question; it shows itself as text and as HTML.
"""

import html
import re
from collections.abc import Mapping
from dataclasses import dataclass

from course_utils import colours


@dataclass(frozen=True, kw_only=True)
class CaseResult:
    """How an answer did in one case.

    Attributes:
        right: For every part of the answer, whether it was right.
        sentence: What was wanted and what came, for the first wrong part.
        hints: Hints of the known mistakes that give exactly this result.
        remark: Something worth saying about a right answer.
        ratio: Got over wanted, for the first wrong part.
    """

    right: Mapping[str, bool]
    sentence: str = ""
    hints: tuple[str, ...] = ()
    remark: str = ""
    ratio: float | None = None

    @property
    def passed(self) -> bool:
        """Whether every part was right."""
        return all(self.right.values())


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What a check says about an answer.

    Attributes:
        exercise: Id of the exercise.
        points: Points earned, out of ``max_points``.
        sentence: What happened, in one sentence.
        sizes: The sizes that the sentence is about.
        hint: A question that leads on; empty if all is well.
        written: False while the answer is still the stub.
        hidden: Whether the sizes were those of grading.
    """

    exercise: str
    points: float
    max_points: float
    sentence: str
    sizes: str = ""
    hint: str = ""
    written: bool = True
    hidden: bool = False

    @property
    def passed(self) -> bool:
        """Whether the answer earns all its points."""
        return 0 < self.max_points == self.points

    def __str__(self) -> str:
        """The verdict as text: mark, points, sentence, hint."""
        return "\n".join([f"{self._mark} {self._headline}", *self._lines])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        colour = colours.RIGHT if self.passed else colours.WRONG if self.written else colours.OPEN
        lines = "".join(f"<div>{_marked_up(line)}</div>" for line in self._lines)
        return (
            f'<div style="border-left: 4px solid {colour}; padding: 2px 10px">'
            f'<div><b style="color: {colour}">{self._mark}</b> '
            f"<b>{html.escape(self._headline)}</b></div>{lines}</div>"
        )

    @property
    def _mark(self) -> str:
        return "✓" if self.passed else "✗" if self.written else "○"

    @property
    def _headline(self) -> str:
        unit = "point" if self.max_points == 1 else "points"
        points = f"{self.points:g} of {self.max_points:g} {unit}"
        if self.hidden:  # a person may have given other points, shown above
            return f"{self.exercise} on hidden sizes: the check gives {points}"
        return f"{self.exercise}: {points}"

    @property
    def _lines(self) -> list[str]:
        sizes = [f"Sizes: `{self.sizes}`"] if self.sizes else []
        hint = [f"Hint: {self.hint}"] if self.hint else []
        return [self.sentence, *sizes, *hint]


def _marked_up(line: str) -> str:
    """A line as HTML: `code` as code, and Hint: in bold."""
    code = re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(line, quote=False))
    return re.sub(r"^Hint:", "<b>Hint:</b>", code)
