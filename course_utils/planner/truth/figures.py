"""Errors of many rows in five figures, and a goal for one of them.

>>> figures = Figures.of([0.01, -0.02, 0.3, float("inf")])
>>> figures.median, figures.within_ten, figures.second_worst
(16.0, 50.0, 30.0)
"""

import csv
import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, astuple, dataclass, fields
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

    count: int
    median: float
    ninety: float
    within_ten: float
    second_worst: float
    worst: float

    @classmethod
    def of(cls, errors: Iterable[float]) -> Self:
        """Of errors as shares: 0.1 is 10 %."""
        sizes = sorted(abs(each) for each in errors)
        count = len(sizes)
        return cls(
            count,
            _percent(statistics.median(sizes)),
            _percent(sizes[math.ceil(0.9 * count) - 1]),
            _percent(sum(each <= NEAR for each in sizes) / count),
            _percent(sizes[-2]),
            _percent(sizes[-1]),
        )


def _percent(share: float) -> float:
    return round(100 * share, 2)


@dataclass(frozen=True)
class Line:
    """Figures of one predictor on one kind of rows.

    Attributes:
        on: What is predicted, of which rows.
        by: The predictor.
        of_all: Figures of all these rows.
        of_class: Figures of those in the stated class.
    """

    on: str
    by: str
    of_all: Figures
    of_class: Figures


@dataclass(frozen=True)
class Goal:
    """A bound for one figure.

    Attributes:
        on: As in a `Line`.
        figure: Name of a field of `Figures`.
        percent: The bound; a share of rows is to be at least that, an error at most.
    """

    on: str
    figure: str
    percent: float

    def is_met(self, figures: Figures) -> bool:
        """Whether figures keep it."""
        came: float = getattr(figures, self.figure)
        is_share = self.figure == "within_ten"
        return came >= self.percent if is_share else came <= self.percent

    def __str__(self) -> str:
        """In short: ``median ≤ 3.5``."""
        sign = "≥" if self.figure == "within_ten" else "≤"
        return f"{self.figure.replace('_', ' ')} {sign} {self.percent:g}"


NAMES = [each.name for each in fields(Figures)]


def write(path: Path, lines: Sequence[Line]) -> None:
    """Write lines as a table, two rows for each."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["on", "by", "rows", *NAMES])
        for line in lines:
            writer.writerow([line.on, line.by, "all", *astuple(line.of_all)])
            writer.writerow([line.on, line.by, "class", *astuple(line.of_class)])


def read(path: Path) -> list[Line]:
    """Lines as `write` leaves them; comments are skipped."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
    found = [Figures(int(row["count"]), *(float(row[name]) for name in NAMES[1:])) for row in rows]
    return [
        Line(row["on"], row["by"], found[n], found[n + 1])
        for n, row in enumerate(rows)
        if row["rows"] == "all"
    ]


def as_text(line: Line) -> str:
    """One line of text: all rows, then those of the class."""
    return f"   {line.by:24}{_shown(line.of_all)}   | {_shown(line.of_class)}"


def _shown(figures: Figures) -> str:
    count, *percents = asdict(figures).values()
    return f"{count:5}" + "".join(f"{_short(each):>8}" for each in percents)


def _short(percent: float) -> str:
    return "none" if math.isinf(percent) else f"{percent:.1f}" if percent < 1000 else "> 999"
