"""Plans: as many as there are, and none where none is left."""

from dataclasses import replace

import pytest

from course_utils.configs import machine_of, preset
from course_utils.formulas.best_plan import best_plan, plans
from course_utils.planner import PlanCosts

MODEL, MACHINE = preset("Llama-3.2-1B"), machine_of("A100-80", 4)


def test_every_plan_uses_all_devices_and_no_other():
    found = list(plans(MODEL, 256, MACHINE))
    assert len(found) == len({*found}) == 238
    assert {each.num_devices for each in found} == {4}


def test_where_no_plan_fits_the_smallest_is_named():
    tiny = replace(MACHINE, memory_bytes=10**9)
    with pytest.raises(ValueError, match="no plan fits"):
        best_plan(MODEL, 128, tiny, PlanCosts(MODEL, 8192, 128, tiny))
