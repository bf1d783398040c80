"""The rubric of a text answer as items with points, read from the prose of its model answer.

    >>> rubric_of("… *Rubric:* half for the sum, half for the reason. A sketch counts.", 1.0)
    Rubric(items=(Item('the sum', 0.5), Item('the reason', 0.5)), note='A sketch counts.')

Three forms are known: ``half a point for A; half for B``, ``half a point each: A; B``, and
``A: 0.5; B: 0.5``. What follows the items is a note.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

SHARES = {"half": 1 / 2, "a third": 1 / 3}
SHARE = r"(half|a third)(?: a point)?"
BEGINS = re.compile(r"\*Rubric[:.]\*\s*(.+)", re.DOTALL)
FOR = re.compile(rf"{SHARE} for (.+?)(?=[;,] {SHARE} for |\.(?: |$))")
EACH = re.compile(rf"{SHARE} (?:each:|for each of) (.+?)(?:; (?=each )|\.(?: |$))")
NUMBERED = re.compile(r"(?:^|[;.] )([^;:]+): (\d+(?:\.\d+)?)(?=[;.])")


class Item(NamedTuple):
    """Something that an answer should say, and its points."""

    text: str
    points: float


class Rubric(NamedTuple):
    """Items that make up the points of an exercise, or none, and what else the rubric says."""

    items: tuple[Item, ...] = ()
    note: str = ""


def rubric_of(model_answer: str, points: float) -> Rubric:
    """The rubric at the end of a model answer; no items unless theirs are all the points."""
    prose = _prose(model_answer)
    for form in FORMS:
        items = [*form(prose)]
        if items and abs(sum(item.points for item, _ in items) - points) < 1e-9:
            note = prose[items[-1][1] :].lstrip(" .;")
            return Rubric(tuple(item for item, _ in items), note)
    return Rubric(note=prose)


def points_of_rubric(model_answer: str) -> float | None:
    """The points that the items of a rubric make; none where it has no items of a known form."""
    totals = [sum(item.points for item, _ in form(_prose(model_answer))) for form in FORMS]
    return max(totals) or None


def _prose(model_answer: str) -> str:
    found = BEGINS.search(model_answer)
    return " ".join(re.sub(r"<!--.*?-->", "", found[1], flags=re.DOTALL).split()) if found else ""


def _for(prose: str) -> Iterator[tuple[Item, int]]:
    """Items of the first form, each with the place where it ends."""
    for found in FOR.finditer(prose):
        yield Item(found[2], SHARES[found[1]]), found.end()


def _each(prose: str) -> Iterator[tuple[Item, int]]:
    if found := EACH.match(prose):
        separator = "; " if "; " in found[2] else r", (?:and )?"
        for text in re.split(separator, found[2]):
            yield Item(text, SHARES[found[1]]), found.end()


def _numbered(prose: str) -> Iterator[tuple[Item, int]]:
    for found in NUMBERED.finditer(prose):
        yield Item(found[1], float(found[2])), found.end()


FORMS = (_each, _for, _numbered)
