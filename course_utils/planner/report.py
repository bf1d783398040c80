"""What functions say of a mission: quantities, the plan, and what would move its time most."""

import html
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

from course_utils.planner.choice import Choice, Row
from course_utils.planner.mission import Mission
from course_utils.planner.quantities import (
    COURSE_FUNCTIONS,
    FASTEST,
    QUANTITIES,
    Functions,
    Quantity,
    course_function,
    fastest,
)
from course_utils.planner.sensitivity import doubled

COLOUR = "#8a6d00"
CARD = (
    f"border: 1px solid {COLOUR}66; border-left: 8px solid {COLOUR}; border-radius: 6px; "
    f"background: {COLOUR}14; padding: 6px 18px"
)
LABEL_WIDTH = 2 + max(len(each.label) for each in QUANTITIES)
FIRST_PLANNED = next(each.label for each in QUANTITIES if each.needs == FASTEST)
ROUGH: Row = ("roughly", "", "whatever the plan, with a share of the peak that is only hoped for")
PLANNED: Row = ("with the fastest plan", "", "the answer; “its time” names its constants")


@dataclass(frozen=True)
class Report:
    """What functions say of a mission; shows itself as a card.

    Attributes:
        mission: What is planned.
        functions: By name, all that a plan takes.
        notes: What else is to be said, a sentence each.
    """

    mission: Mission
    functions: Functions
    notes: Sequence[str] = ()

    @classmethod
    def of(cls, mission: Mission, own: Functions) -> Self:
        """With one's own functions, as far as there are some; a note names those of the course."""
        missing = [name for name in COURSE_FUNCTIONS if name not in own]
        functions = dict(own) | {name: course_function(name) for name in missing}
        names = ", ".join(f"`{name}`" for name in missing)
        return cls(mission, functions, [f"From the course: {names}."] if names else [])

    def rows(self) -> Iterator[Row]:
        """Label, value and note of each quantity, of the plan, and of what moves its time."""
        yield ROUGH
        for quantity in QUANTITIES:
            if quantity.label == FIRST_PLANNED:
                yield PLANNED
            yield quantity.label, *value_and_note(quantity, self.functions, self.mission)
        try:
            plan = fastest(self.functions, self.mission)
        except ValueError as error:
            yield "the plan", "none", str(error)
            return
        yield from Choice(self.mission, plan).rows()
        factors = doubled(self.functions, self.mission)
        for name, factor in factors.items():
            yield f"its time with 2 × {name}", f"× {factor:.2f}", ""

    def __str__(self) -> str:
        """A line for each row."""
        return "\n".join([str(self.mission), *map(as_line, self.rows()), *self.notes])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return as_card(f"Your plan: {self.mission}", self.rows(), self.notes)


def value_and_note(quantity: Quantity, functions: Functions, mission: Mission) -> tuple[str, str]:
    """A quantity with its unit and its limit, and what it assumes; why there is none."""
    try:
        number = quantity.value(functions, mission)
    except ValueError as error:
        return "none", str(error)
    shown = f"{number:,.3g}" if number < 1000 else f"{number:,.0f}"
    guess = quantity.guess(mission)
    note = f"assumed: {guess}" if guess else ""
    if quantity.limit is None:
        return f"{shown} {quantity.unit}", note
    limit = quantity.limit(mission)
    mark = "✓" if number <= limit else "✗ too much"
    return f"{shown} of {limit:,.0f} {quantity.unit} {mark}", note


def as_line(row: Row) -> str:
    """A row as text, values below each other."""
    label, value, note = row
    return f"{label:<{LABEL_WIDTH}}{value}{'  ' + note if note else ''}"


def as_card(title: str, rows: Iterator[Row], notes: Sequence[str]) -> str:
    """HTML of a card with rows in a table and notes below."""
    cell = '<td style="text-align: left; padding: 1px 14px 1px 0">'
    table = "".join(
        f"<tr>{''.join(f'{cell}{html.escape(each)}</td>' for each in row)}</tr>" for row in rows
    )
    below = "".join(f"<div>{html.escape(each)}</div>" for each in notes)
    return (
        f'<div style="{CARD}"><b>{html.escape(title)}</b>'
        f'<table style="margin: 4px 0">{table}</table>{below}</div>'
    )
