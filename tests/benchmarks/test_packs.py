"""Every practice pack is what is recorded on this machine, but for last digits."""

import pytest

from autograder import catalogue
from autograder.exercises.record import compare

CODED = {
    unit.folder: [item.id for item in unit.exercises if not item.manual]
    for unit in catalogue.units()
}


@pytest.mark.parametrize("unit", [unit for unit, exercises in CODED.items() if exercises])
def test_packs_of_a_unit_are_what_is_recorded(unit):
    assert compare(CODED[unit]) == []
