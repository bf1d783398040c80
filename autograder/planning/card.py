"""What the plan can say now: one card."""

import html
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from IPython import get_ipython

from autograder import catalogue
from autograder.planning import folder
from course_utils.planner import MISSION, QUANTITIES, Functions, Mission, Quantity

LABEL_WIDTH = 2 + max(len(each.label) for each in QUANTITIES)
COLOUR = "#8a6d00"
CARD = (
    "border: 1px solid {colour}66; border-left: 8px solid {colour}; border-radius: 6px; "
    "background: {colour}14; padding: 6px 18px"
)


@dataclass(frozen=True)
class Plan:
    """The mission, and what a student's own functions say of it; shows itself as a card.

    Attributes:
        mission: What is planned.
        functions: The student's own, by name.
        refused: Why others could not be taken into `work/planner`.
    """

    mission: Mission
    functions: Functions
    refused: dict[str, str]

    def __str__(self) -> str:
        """A line for each quantity."""
        lines = (
            f"{label:<{LABEL_WIDTH}}{value}{'  ' + note if note else ''}"
            for label, value, note in self._rows()
        )
        return "\n".join([str(self.mission), *lines, *self._refusals()])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        cell = '<td style="text-align: left; padding: 1px 14px 1px 0">'
        rows = "".join(
            f"<tr>{''.join(f'{cell}{html.escape(each)}</td>' for each in row)}</tr>"
            for row in self._rows()
        )
        notes = "".join(f"<div>{html.escape(each)}</div>" for each in self._refusals())
        return (
            f'<div style="{CARD.format(colour=COLOUR)}">'
            f"<b>Your plan: {html.escape(str(self.mission))}</b>"
            f'<table style="margin: 4px 0">{rows}</table>{notes}</div>'
        )

    def _rows(self) -> Iterator[tuple[str, str, str]]:
        for quantity in QUANTITIES:
            missing = [name for name in quantity.needs if name not in self.functions]
            if missing:
                units = sorted({_unit_of(name) for name in missing})
                those = f"unit{'s' * (len(units) > 1)} {' and '.join(units)}"
                yield quantity.label, "?", f"waits for {those}"
            else:
                yield quantity.label, *self._known(quantity)

    def _known(self, quantity: Quantity) -> tuple[str, str]:
        number = quantity.value(self.functions, self.mission)
        shown, guess = (
            f"{number:,.3g}" if number < 1000 else f"{number:,.0f}",
            quantity.guess(self.mission),
        )
        assumed = f"assumed: {guess}" if guess else ""
        if quantity.limit is None:
            return f"{shown} {quantity.unit}", assumed
        limit = quantity.limit(self.mission)
        mark = "✓" if number <= limit else "✗ too much"
        return f"{shown} of {limit:,.0f} {quantity.unit} {mark}", assumed

    def _refusals(self) -> Iterator[str]:
        for name, why in self.refused.items():
            yield f"`{name}` stays in its notebook: {why}."


def plan() -> Plan:
    """Take the functions whose checks passed into the plan, and show what it says now.

    In a work folder they are written to `planner/`, which can be imported. Outside of one nothing
    is written, and the plan knows the functions of this notebook.
    """
    shell = get_ipython()
    namespace: dict[str, Any] = shell.user_ns if shell else {}
    refused = folder.add_passing(namespace)
    functions = folder.own_functions()
    if folder.find() is None:
        functions = {name: namespace[name] for name in folder.passing(namespace)}
    return Plan(MISSION, functions, refused)


def _unit_of(function: str) -> str:
    return next(
        unit.number
        for unit in catalogue.units()
        if any(item.function == function for item in unit.exercises)
    )
