"""How far am I? The units and exercises, with the points of their last checks."""

import html
from dataclasses import dataclass

from autograder import catalogue, progress_file
from course_utils import colours


@dataclass(frozen=True)
class Progress:
    """Units with the points of their exercises, by id; shows itself as a table."""

    units: tuple[catalogue.Unit, ...]
    points: dict[str, float]

    def __str__(self) -> str:
        """One line per unit and per exercise."""
        return "\n".join(line for unit in self.units for line in self._unit_lines(unit))

    __repr__ = __str__

    def _unit_lines(self, unit: catalogue.Unit) -> list[str]:
        lines = [f"{unit.folder}: {self._points(unit)}"]
        return lines + [f"  {self._mark(item)} {item.title}" for item in unit.exercises]

    def _repr_html_(self) -> str:
        rows = "".join(self._unit_row(unit) for unit in self.units)
        return f'<table style="text-align: left">{rows}</table>'

    def _unit_row(self, unit: catalogue.Unit) -> str:
        total = _total(unit, extra=False)
        share = self._earned(unit, extra=False) / total if total else 0
        filled = (
            f'<div style="width: {share:.0%}; height: 10px; background: {colours.RIGHT}"></div>'
        )
        bar = f'<div style="width: 120px; border: 1px solid {colours.OPEN}">{filled}</div>'
        exercises = "<br>".join(
            f"{self._mark(item)} {html.escape(item.title)}" for item in unit.exercises
        )
        points = self._points(unit)
        title = f"{unit.number} {html.escape(unit.title)}"
        cells = (f"<b>{title}</b>", bar, points, exercises)
        return "<tr>" + "".join(f'<td style="text-align: left">{c}</td>' for c in cells) + "</tr>"

    def _points(self, unit: catalogue.Unit) -> str:
        by_hand = sum(item.points for item in unit.exercises if item.manual)
        later = f", {by_hand:g} more from a reader" if by_hand else ""
        bonus = f", {self._earned(unit, extra=True):g} of {_total(unit, extra=True):g} extra"
        core = f"{self._earned(unit, extra=False):g} of {_total(unit, extra=False):g} points"
        return core + (bonus if _total(unit, extra=True) else "") + later

    def _mark(self, item: catalogue.Exercise) -> str:
        if item.manual:
            return "✎"
        earned = self.points.get(item.id)
        return "○" if earned is None else "✓" if earned == item.points else "✗"

    def _earned(self, unit: catalogue.Unit, *, extra: bool) -> float:
        return sum(self.points.get(item.id, 0.0) for item in _checked(unit, extra=extra))


def progress() -> Progress:
    """Where you are: ✓ right, ✗ not yet right, ○ not tried, ✎ read by a person.

    Outside a work folder this kernel knows only what it has checked itself, and shows those units.
    """
    exercises = progress_file.load()["exercises"]
    points = {name: entry["points"] for name, entry in exercises.items()}
    units = catalogue.units()
    if progress_file.find() is None:
        units = tuple(unit for unit in units if any(item.id in points for item in unit.exercises))
    return Progress(units, points)


def _checked(unit: catalogue.Unit, *, extra: bool) -> list[catalogue.Exercise]:
    """The exercises of a unit that have a check: the core ones, or the extra ones."""
    return [item for item in unit.exercises if not item.manual and item.extra == extra]


def _total(unit: catalogue.Unit, *, extra: bool) -> float:
    return sum(item.points for item in _checked(unit, extra=extra))
