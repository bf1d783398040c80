"""Every practice pack is what is recorded on this machine, but for last digits.

`ONE_IN=4` in the environment records one in four.
"""

import os

import pytest

from autograder import catalogue
from autograder.exercises.record import compare
from tests.sampling import is_chosen

SHARE = int(os.environ.get("ONE_IN", "1"))
RECORDED = {
    unit.folder: [
        item.id for item in unit.exercises if not item.manual and is_chosen(item.id, "pack", SHARE)
    ]
    for unit in catalogue.units()
}


@pytest.mark.parametrize("unit", [unit for unit, exercises in RECORDED.items() if exercises])
def test_packs_of_a_unit_are_what_is_recorded(unit):
    assert compare(RECORDED[unit]) == []
