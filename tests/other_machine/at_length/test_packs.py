"""Every practice pack, or one in `ONE_IN`, is what is recorded here, but for last digits."""

import pytest

from autograder import catalogue
from autograder.exercises.record import compare
from tests.sampling import ONE_IN, is_chosen

RECORDED = {
    unit.folder: [
        item.id for item in unit.exercises if not item.manual and is_chosen(item.id, "pack", ONE_IN)
    ]
    for unit in catalogue.units()
}


@pytest.mark.parametrize("unit", [unit for unit, exercises in RECORDED.items() if exercises])
def test_packs_of_a_unit_are_what_is_recorded(unit):
    assert compare(RECORDED[unit]) == []
