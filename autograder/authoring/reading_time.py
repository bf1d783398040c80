"""How long does a unit take? Minutes made of its words, its given code and its cards.

Careful people walked fifteen times through a unit with nothing but what students get; the rates
below are the least-squares fit to their 105 to 180 minutes, which they meet within 25, and within
15 since texts are short. A card's minutes count as they are. Words are slow, because pictures,
tables, formulas and guesses come with them; given lines are quick, because they are skimmed.
"""

import re
from dataclasses import dataclass

from nbformat import NotebookNode

from autograder.authoring.cell_marks import SOLUTION

WORDS_PER_MINUTE, LINES_PER_MINUTE = 75, 30
EXTRAS, END_OF_EXTRAS = "## Extras", "## "
MARKUP = re.compile(r"<[^>]*>|\$[^$]*\$|[|#*`]")
ROUNDED_TO = 5  # minutes
# One sitting.
MAX_WORDS, MAX_GIVEN_LINES, MAX_MINUTES = 3500, 250, 100


@dataclass(frozen=True)
class Length:
    """What a student reads.

    Attributes:
        words: Of texts, those in folded boxes too.
        given_lines: Of code that is seen when the notebook is opened.
    """

    words: int
    given_lines: int

    def minutes(self, card_minutes: int) -> int:
        """Minutes for reading this and for exercises of so many minutes, rounded."""
        exact = self.words / WORDS_PER_MINUTE + self.given_lines / LINES_PER_MINUTE + card_minutes
        return ROUNDED_TO * round(exact / ROUNDED_TO)


def over_budget(length: Length, minutes: int) -> dict[str, str]:
    """What of a unit is more than one sitting takes: a sentence for each budget that is passed."""
    counted = {
        "words": (length.words, MAX_WORDS),
        "lines of given code": (length.given_lines, MAX_GIVEN_LINES),
        "minutes": (minutes, MAX_MINUTES),
    }
    return {
        what: f"{count:,} {what}, {count - most:,} too many"
        for what, (count, most) in counted.items()
        if count > most
    }


def core(cells: list[NotebookNode]) -> list[NotebookNode]:
    """The cells of a unit without those between the heading of the extras and the next one."""
    kept, is_extra = [], False
    for cell in cells:
        if cell.cell_type == "markdown" and cell.source.startswith(END_OF_EXTRAS):
            is_extra = cell.source.startswith(EXTRAS)
        if not is_extra:
            kept.append(cell)
    return kept


def length(cells: list[NotebookNode]) -> Length:
    """Words and visible lines of given code in some cells of a master or a release."""
    texts = (cell.source for cell in cells if cell.cell_type == "markdown")
    codes = (cell.source for cell in cells if cell.cell_type == "code" and not _is_folded(cell))
    return Length(
        words=sum(len(MARKUP.sub(" ", _given(text)).split()) for text in texts),
        given_lines=sum(bool(line.strip()) for code in codes for line in _given(code).splitlines()),
    )


def _given(source: str) -> str:
    """What students get of a cell."""
    return SOLUTION.sub("", source)


def _is_folded(cell: NotebookNode) -> bool:
    marks = cell.metadata
    return bool(marks.get("folded") or marks.get("setup") or "jupyter" in marks)
