"""How far am I? A line for each unit, with the points of the last checks of its exercises."""

import html
from dataclasses import dataclass

from autograder import catalogue, progress_file
from course_utils import colours

BAR = 10  # letters of a full bar
COLOURS = {"✓": colours.RIGHT, "✗": colours.WRONG, "○": colours.OPEN, "✎": colours.OPEN}


@dataclass(frozen=True)
class Progress:
    """Units with the points of their exercises, by id; shows itself as one line a unit."""

    units: tuple[catalogue.Unit, ...]
    points: dict[str, float]

    def __str__(self) -> str:
        """Of each unit its title, a bar, its points and the marks of its exercises."""
        title, points = (
            max((len(each) for each in map(text, self.units)), default=0)
            for text in (_title, self._points)
        )
        return "\n".join(
            f"{_title(unit):<{title}}  {self._bar(unit)}  {self._points(unit):<{points}}  "
            f"{''.join(map(self._mark, unit.exercises))}"
            for unit in self.units
        )

    __repr__ = __str__

    def _bar(self, unit: catalogue.Unit) -> str:
        filled = int(BAR * self._share(unit))
        return "█" * filled + "░" * (BAR - filled)

    def _repr_html_(self) -> str:
        rows = "".join(self._row(unit) for unit in self.units)
        return f'<table style="text-align: left">{rows}</table>'

    def _row(self, unit: catalogue.Unit) -> str:
        filled = f"width: {self._share(unit):.0%}; height: 10px; background: {colours.RIGHT}"
        bar = (
            f'<div style="width: 90px; border: 1px solid {colours.OPEN}">'
            f'<div style="{filled}"></div></div>'
        )
        marks = "".join(self._coloured_mark(item) for item in unit.exercises)
        cells = (f"<b>{html.escape(_title(unit))}</b>", bar, self._points(unit), marks)
        cell = '<td style="text-align: left">'
        return f"<tr>{''.join(f'{cell}{each}</td>' for each in cells)}</tr>"

    def _coloured_mark(self, item: catalogue.Exercise) -> str:
        mark = self._mark(item)
        words = f"{item.title}: {item.points:g} {'point' if item.points == 1 else 'points'}"
        style = f"color: {COLOURS[mark]}; padding-right: 4px"
        return f'<span style="{style}" title="{html.escape(words)}">{mark}</span> '

    def _points(self, unit: catalogue.Unit) -> str:
        core = f"{self._earned(unit, extra=False):g} of {_total(unit, extra=False):g} points"
        bonus = f", {self._earned(unit, extra=True):g} of {_total(unit, extra=True):g} extra"
        read = sum(item.points for item in unit.exercises if item.manual)
        return (
            core + (bonus if _total(unit, extra=True) else "") + (f", {read:g} ✎" if read else "")
        )

    def _mark(self, item: catalogue.Exercise) -> str:
        if item.manual:
            return "✎"
        earned = self.points.get(item.id)
        return "○" if earned is None else "✓" if earned == item.points else "✗"

    def _share(self, unit: catalogue.Unit) -> float:
        total = _total(unit, extra=False)
        return self._earned(unit, extra=False) / total if total else 0.0

    def _earned(self, unit: catalogue.Unit, *, extra: bool) -> float:
        return sum(self.points.get(item.id, 0.0) for item in _checked(unit, extra=extra))


def progress(unit: str | None = None) -> Progress:
    """Where you are: ✓ right, ✗ not yet right, ○ not tried, ✎ read by a person.

    Outside a work folder this kernel knows only what it has checked itself, and shows those units.

    Args:
        unit: The number of a unit, such as ``"03"``, to show that one alone.

    Raises:
        ValueError: If there is no such unit.
    """
    exercises = progress_file.load()["exercises"]
    points = {name: entry["points"] for name, entry in exercises.items()}
    units = catalogue.units()
    if unit is not None:
        numbers = [each.number for each in units]
        if unit not in numbers:
            raise ValueError(f"progress: wanted one of {', '.join(numbers)}, got {unit!r}")
        units = (units[numbers.index(unit)],)
    elif progress_file.find() is None:
        units = tuple(each for each in units if any(item.id in points for item in each.exercises))
    return Progress(units, points)


def _title(unit: catalogue.Unit) -> str:
    return f"{unit.number} {unit.title}"


def _checked(unit: catalogue.Unit, *, extra: bool) -> list[catalogue.Exercise]:
    """The exercises of a unit that have a check: the core ones, or the extra ones."""
    return [item for item in unit.exercises if not item.manual and item.extra == extra]


def _total(unit: catalogue.Unit, *, extra: bool) -> float:
    return sum(item.points for item in _checked(unit, extra=extra))
