"""Errors of many rows in five figures, and goals for them.

>>> figures = Figures.of([0.01, -0.02, 0.3, float("inf")])
>>> figures.median, figures.within_ten, figures.second_worst
(16.0, 50.0, 30.0)
"""

import csv
import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Self

NEAR = 0.10


@dataclass(frozen=True)
class Figures:
    """Per cent, of errors without their signs; infinite where a model has no answer.

    Attributes:
        count: Rows.
        median: Of the errors.
        ninety: What nine in ten rows do not exceed.
        within_ten: Share of rows within 10 %; where a row is right or wrong, of those right.
        second_worst: The largest error but one.
        worst: The largest.
    """

    count: float
    median: float
    ninety: float
    within_ten: float
    second_worst: float
    worst: float

    @classmethod
    def of(cls, errors: Iterable[float]) -> Self:
        """Of errors as shares: 0.1 is 10 %."""
        sizes = sorted(abs(each) for each in errors)
        shares = (
            statistics.median(sizes),
            sizes[math.ceil(0.9 * len(sizes)) - 1],
            sum(each <= NEAR for each in sizes) / len(sizes),
            *sizes[-2:],
        )
        return cls(len(sizes), *(round(100 * share, 2) for share in shares))

    def __str__(self) -> str:
        """All of them in a row."""
        count, *percents = astuple(self)
        shown = ("none" if math.isinf(x) else f"{x:.1f}" if x < 1000 else "> 999" for x in percents)
        return f"{count:5.0f}" + "".join(f"{each:>8}" for each in shown)


@dataclass(frozen=True)
class Line:
    """Figures of one predictor on one kind of rows: of all, and of those in the stated class."""

    on: str
    by: str
    of_all: Figures
    of_class: Figures

    def __str__(self) -> str:
        """Without what it is on."""
        return f"   {self.by:24}{self.of_all}   | {self.of_class}"


def is_met(figure: str, percent: float, figures: Figures) -> bool:
    """Whether a figure keeps its bound: a share of rows is to be at least that, others at most."""
    came: float = getattr(figures, figure)
    return came >= percent if figure == "within_ten" else came <= percent


def verdict(figure: str, percent: float, line: Line) -> str:
    """A goal, and whether a line meets it."""
    sign, name = "≥" if figure == "within_ten" else "≤", figure.replace("_", " ")
    both = (is_met(figure, percent, each) for each in (line.of_all, line.of_class))
    all_rows, of_class = ("yes" if each else "no" for each in both)
    return f"      goal: {name} {sign} {percent:g}. All rows: {all_rows}; class: {of_class}"


def write(path: Path, lines: Sequence[Line]) -> None:
    """Write lines as a table: what, by whom, figures of all rows, figures of the class."""
    names = [f"{rows}_{name}" for rows in ("all", "class") for name in Figures.__annotations__]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["on", "by", *names])
        for each in lines:
            writer.writerow([each.on, each.by, *astuple(each.of_all), *astuple(each.of_class)])


def read(path: Path) -> list[Line]:
    """Lines as `write` leaves them; comments are skipped."""
    with path.open(newline="", encoding="utf-8") as file:
        _, *rows = csv.reader(line for line in file if not line.startswith("#"))
    numbers = [[float(each) for each in row[2:]] for row in rows]
    return [
        Line(row[0], row[1], Figures(*figures[:6]), Figures(*figures[6:]))
        for row, figures in zip(rows, numbers, strict=True)
    ]
