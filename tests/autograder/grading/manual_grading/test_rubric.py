"""Rubrics as items with points: those of all units, and what is none."""

import nbformat
import pytest

from autograder import catalogue
from autograder.cells import cell_key
from autograder.grading.manual_grading.rubric import Item, Rubric, rubric_of
from tests.notebooks.filling import ROOT

IN_WORDS = [
    (unit.folder, item) for unit in catalogue.units() for item in unit.exercises if item.manual
]


@pytest.mark.parametrize(("unit", "item"), IN_WORDS, ids=[item.id for _, item in IN_WORDS])
def test_every_rubric_of_the_course_is_items_that_make_up_the_points(unit, item):
    path = ROOT / "solutions" / unit / f"{unit}.ipynb"
    cells = nbformat.read(path, as_version=4).cells
    answer = next(cell.source for cell in cells if cell_key(cell) == item.id)
    items = rubric_of(answer, item.points).items
    assert 2 <= len(items) <= 9, "each item has a digit as its key"
    assert sum(each.points for each in items) == pytest.approx(item.points)
    assert all(each.text.count("(") == each.text.count(")") for each in items)


@pytest.mark.parametrize(
    ("prose", "points", "items", "note"),
    [
        (
            "half a point for a, or b; half for c (not d; e). A note.",
            1.0,
            [("a, or b", 0.5), ("c (not d; e)", 0.5)],
            "A note.",
        ),
        ("a third for a, a third for 2.5 of b, a third for c.", 1.0, ["a", "2.5 of b", "c"], ""),
        ("half a point each: a, b; c.", 1.0, [("a, b", 0.5), ("c", 0.5)], ""),
        (
            "half a point for each of a, b, and c; each counts half without a number.",
            1.5,
            [("a", 0.5), ("b", 0.5), ("c", 0.5)],
            "each counts half without a number.",
        ),
        ("A: 0.5; b (c, d): 1.5. More of it.", 2.0, [("A", 0.5), ("b (c, d)", 1.5)], "More of it."),
        ("half for a, half for b.", 2.0, [], "half for a, half for b."),
        ("as you see fit", 1.0, [], "as you see fit"),
    ],
)
def test_forms_of_a_rubric(prose, points, items, note):
    wanted = [each if isinstance(each, tuple) else (each, 1 / 3) for each in items]
    found = rubric_of(f"An answer.\n\n*Rubric:* {prose}\n<!-- END SOLUTION -->", points)
    assert found == Rubric(tuple(Item(*each) for each in wanted), note)
    assert rubric_of(prose, points) == Rubric(), "without the word there is none"
