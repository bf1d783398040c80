"""Two figures of a class: the outcome of each exercise as a bar, and a histogram of points."""

import math
import textwrap
from collections.abc import Sequence

import pandas as pd

from course_utils import colours
from course_utils.show.picture import Picture, axes

OUTCOMES = {
    "full": ("full marks", {"color": colours.RIGHT}),
    "part": ("part of the points", {"color": colours.PARTLY}),
    "wrong": ("wrong", {"color": colours.WRONG}),
    "not_written": ("not written", {"color": "white", "edgecolor": colours.OPEN, "hatch": "////"}),
}
MAX_BARS = 20
TITLE_WIDTH = 42  # characters of an exercise's title


def outcome_picture(table: pd.DataFrame) -> Picture:
    """The fractions of a class with full marks, part of the points, a wrong answer, and none.

    Args:
        table: As `exercise_table` gives it, with at least one exercise.
    """
    figure, pair = axes(9.0, 1.3 + 0.42 * len(table))
    titles = [textwrap.shorten(title, TITLE_WIDTH, placeholder=" …") for title in table["title"]]
    left = pd.Series(0.0, index=table.index)
    for name, (label, style) in OUTCOMES.items():
        shares = 100 * table[name] / table["judged"].clip(lower=1)
        bars = pair.barh(range(len(table)), shares, left=left, height=0.72, label=label, **style)
        if name == "full":
            labels = [f"{share:.0f} %" if share >= 8 else "" for share in shares]
            pair.bar_label(bars, labels, label_type="center", color="white", fontsize=9)
        left += shares
    pair.set_yticks(range(len(table)), titles)
    pair.invert_yaxis()
    pair.set_xlim(0, 100)
    pair.set_xlabel("percent of the submissions")
    pair.tick_params(axis="y", length=0)
    pair.spines["left"].set_visible(False)
    figure.legend(loc="outside lower center", ncols=len(OUTCOMES), frameon=False)
    return Picture(figure, headline(table))


def headline(table: pd.DataFrame) -> str:
    """The sentence that the picture shows."""
    table = table[table["judged"] > 0]
    if table.empty:
        return "Nothing was judged yet"
    hardest = table.sort_values(["full_fraction", "points_fraction"], kind="stable").iloc[0]
    if hardest["full_fraction"] == 1:
        return "Everybody has full marks in every exercise"
    unwritten = table.loc[table["not_written"].idxmax()]
    where = f"“{hardest['title']}” is the hardest"
    share = f"{hardest['full']} of {hardest['judged']} have full marks"
    if unwritten["not_written"] <= hardest["not_written"]:
        return f"{where}: {share}, {hardest['not_written']} wrote nothing"
    return f"{where}: {share}"


def points_picture(points: Sequence[float], most: float) -> Picture:
    """How many students have how many points.

    Args:
        points: Those of each student, at least one.
        most: Points possible without extra exercises.
    """
    width = max(1, math.ceil(max([most, *points]) / MAX_BARS))
    last = int(max([most, *points]) // width)
    figure, pair = axes(9.0, 2.4)
    edges = [width * n for n in range(last + 2)]
    pair.hist(points, bins=edges, rwidth=0.9, color=colours.NEUTRAL)
    pair.set_xlabel(f"points, of {most:g} and extra ones")
    pair.set_ylabel("students")
    for axis in (pair.xaxis, pair.yaxis):
        axis.get_major_locator().set_params(integer=True)
    half = sorted(points)[len(points) // 2]
    return Picture(figure, f"Half of the class has {half:g} points or more, of {most:g}")
