"""The form of a student's page, made of an author's marks: opening, cards, pictures, folded code.

JupyterLab keeps an inline style unless it holds `var(...)`; it drops classes, scripts and inline
SVG. What stands in a `<div>` is Markdown again after an empty line. Translucent colours serve the
light and the dark theme.
"""

import base64
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from nbformat import NotebookNode

from autograder.catalogue import Exercise, Unit
from course_utils import colours

LECTURES = {
    "E": "Efficient LLMs",
    "S": "Scaling LLM Training, Part I",
    "B": "Building LLMs in Practice",
}
PICTURE = re.compile(r"!\[(?P<alt>[^\]]*)\]\((?P<file>[\w-]+\.(?P<kind>svg|png))\)")
MEDIA_TYPES = {"svg": "image/svg+xml", "png": "image/png"}
PAGE_WIDTH = 980  # pixels
SETUP_LINE = "# Setup: run this cell first."

CARD = (
    "border: 1px solid {colour}66; border-left: 8px solid {colour}; border-radius: 6px; "
    "background: {colour}14; padding: 2px 18px 10px; margin: 12px 0"
)
HEAD = "display: flex; flex-wrap: wrap; gap: 4px 18px; font-size: 90%; padding-top: 10px"
TAG = "background: {colour}; color: white; border-radius: 3px; padding: 1px 9px; font-weight: 700"


def opening(unit: Unit, needs: Sequence[str], text: str) -> str:
    """The first cell: title, picture and promise, minutes, what comes before; the rest is folded.

    Args:
        unit: What the catalogue says of it.
        needs: Numbers of the units that come before.
        text: The author's picture and promise, and then a numbered list of goals.
    """
    promise, _, goals = text.partition("\n\n1. ")
    return "\n\n".join(
        [
            f"# {unit.number} · {unit.title}",
            promise,
            _facts(unit, needs),
            "<details><summary>Goals and matching slides</summary>",
            f"1. {goals}",
            *_slides(unit),
            "</details>",
        ]
    )


def card(unit: Unit, item: Exercise, text: str) -> str:
    """The card of an exercise: a box that says whose turn it is, and the author's text in it."""
    points = "1 point" if item.points == 1 else f"{item.points:g} points"
    colour = colours.EXTRA if item.extra else colours.YOUR_TURN
    reader = "<span>read by a person</span>" if item.manual else ""
    position = unit.exercises.index(item) + 1
    return (
        f'<div style="{CARD.format(colour=colour)}">\n'
        f'<div style="{HEAD}"><span style="{TAG.format(colour=colour)}">✎ '
        f"{'EXTRA' if item.extra else 'YOUR TURN'}</span>"
        f"<span><strong>{points}</strong></span><span>{item.minutes} min</span>"
        f"<span>difficulty {_dots(item.difficulty)}</span>{reader}</div>\n\n"
        f"### {unit.number}.{position} · {item.title}\n\n{text}\n\n</div>"
    )


def with_pictures(folder: Path, text: str) -> str:
    """Markdown with the pictures of a unit's folder as data, so that one file travels."""
    return PICTURE.sub(lambda found: _as_data(folder, found), text)


def missing_pictures(folder: Path, text: str) -> Iterator[str]:
    """Names of the pictures that a text shows and its unit's folder lacks."""
    names = (found["file"] for found in PICTURE.finditer(text))
    yield from (name for name in names if not (folder / name).exists())


def fold(cell: NotebookNode) -> None:
    """Show only the first line of a cell's code until somebody opens it."""
    cell.metadata["jupyter"] = {"source_hidden": True}


def _facts(unit: Unit, needs: Sequence[str]) -> str:
    extras = sum(item.minutes for item in unit.exercises if item.extra)
    more = f" (plus {extras} for extras)" if extras else ""
    before = f" · after {_listed(needs)}" if needs else ""
    return f"**{unit.minutes} minutes**{more} · runs on a {unit.device}{before}"


def _listed(numbers: Sequence[str]) -> str:
    *first, last = numbers
    return f"units {', '.join(first)} and {last}" if first else f"unit {last}"


def _slides(unit: Unit) -> Iterator[str]:
    for letter, title in LECTURES.items():
        items = [item for item in unit.lecture if item.startswith(letter)]
        if items:
            yield f"Lecture {letter}, *{title}*: {', '.join(items)}"


def _as_data(folder: Path, found: re.Match[str]) -> str:
    data = base64.b64encode((folder / found["file"]).read_bytes()).decode()
    return (
        f'<img alt="{found["alt"]}" width="{PAGE_WIDTH}" '
        f'src="data:{MEDIA_TYPES[found["kind"]]};base64,{data}">'
    )


def _dots(count: int) -> str:
    return "●" * count + "○" * (5 - count)
