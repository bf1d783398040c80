"""What the plan can say now: one card."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from IPython import get_ipython

from autograder import catalogue
from autograder.planning import folder
from course_utils.planner import MISSION, QUANTITIES, Functions, Mission, Report
from course_utils.planner.choice import Row
from course_utils.planner.report import as_card, as_line, value_and_note


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
        return "\n".join([str(self.mission), *map(as_line, self._rows()), *self._refusals()])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return as_card(f"Your plan: {self.mission}", self._rows(), [*self._refusals()])

    def _rows(self) -> Iterator[Row]:
        for quantity in QUANTITIES:
            missing = [name for name in quantity.needs if name not in self.functions]
            if missing:
                units = sorted({_unit_of(name) for name in missing})
                those = f"unit{'s' * (len(units) > 1)} {' and '.join(units)}"
                yield quantity.label, "?", f"waits for {those}"
            else:
                yield quantity.label, *value_and_note(quantity, self.functions, self.mission)

    def _refusals(self) -> Iterator[str]:
        for name, why in self.refused.items():
            yield f"`{name}` stays in its notebook: {why}."


def report(mission: Mission = MISSION) -> Report:
    """What the plan's functions say of any mission: the student's own, the course's for the rest.

    Args:
        mission: The running case, or another: `dataclasses.replace` changes one.
    """
    return Report.of(mission, plan().functions)


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
