"""Nothing of the lectures falls out: every item and every correction has a unit and a state.

A state is planned, taught, exercised, or avoided: what must never be repeated.
`coverage_map.csv` names items as in the lectures (E, S, B and a number) and corrections by their
lecture and kind (E wrong, T misleading, C convention; P is the Ultra-Scale Playbook).
"""

import csv
import re
from pathlib import Path

import pytest

from autograder import catalogue
from tests.notebooks.filling import released

with (Path(__file__).parent / "coverage_map.csv").open(newline="", encoding="utf-8") as file:
    ROWS = list(csv.DictReader(file))
ITEMS = {row["item"] for row in ROWS}
NUM_ITEMS = {"E": 18, "S": 19, "B": 14}
UNITS = {unit.folder[:2]: unit for unit in catalogue.units()}
DONE = [row for row in ROWS if row["state"] != "planned"]


@pytest.mark.parametrize("lecture", NUM_ITEMS)
def test_every_item_of_a_lecture_is_in_the_map(lecture):
    wanted = {f"{lecture}{n}" for n in range(1, NUM_ITEMS[lecture] + 1)}
    assert wanted <= ITEMS


def test_readers_learn_what_every_item_stands_for():
    text = (Path(__file__).parents[1] / "docs" / "lectures.md").read_text(encoding="utf-8")
    subjects = dict(re.findall(r"^\| ([ESB]\d+) \| (\S.*) \|$", text, flags=re.MULTILINE))
    assert set(subjects) == {item for item in ITEMS if "-" not in item}


def test_every_row_is_complete_and_stands_once():
    assert len({(row["item"], row["unit"]) for row in ROWS}) == len(ROWS)
    for row in ROWS:
        assert row["state"] in ("taught", "exercised", "planned", "avoided"), row
        assert row["unit"] in {f"{n:02}" for n in range(16)}, row
        assert row["what"], row


@pytest.mark.parametrize("row", DONE, ids=lambda row: f"{row['item']}-{row['unit']}")
def test_what_is_done_is_named_by_its_unit(row):
    unit = UNITS[row["unit"]]
    text = "\n".join(cell.source for cell in released(unit.folder).cells)
    if "-" not in row["item"]:  # a correction is part of an item or of the words of a unit
        assert row["item"] in unit.lecture
        assert row["item"] in text


@pytest.mark.parametrize("unit", UNITS.values(), ids=lambda unit: unit.folder)
def test_what_a_unit_names_is_in_the_map(unit):
    done = {row["item"] for row in DONE if row["unit"] == unit.folder[:2]}
    assert set(unit.lecture) <= done
