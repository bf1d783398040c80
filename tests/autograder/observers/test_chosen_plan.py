"""What is wrong with a plan that was chosen: one rule, the first that it breaks."""

import pytest

from autograder.observers.u14 import plan as chosen
from course_utils.configs import Costs, Plan

CASE = {
    "model": {"num_kv_heads": 2, "num_layers": 6},
    "num_sequences": 12,
    "machine": {"num_devices": 4, "memory_bytes": 100},
    "costs": {Costs.key(Plan(data=4)): [100, 2.0], Costs.key(Plan(tensor=2, data=2)): [150, 1.0]},
    "scenario": "by the model",
}
RIGHT = {"best": 1.96, "seconds": {Costs.key(Plan(data=4)): 2.0}}
CLOCK = CASE | {
    "scenario": "by the clock",
    "costs": CASE["costs"] | {Costs.OTHERS: list(Costs.NOBODY_RAN_IT)},
}


def numbers(plan, case=CASE, what="without names"):
    observed = {"plan": plan and dict(vars(plan)), "what": what}
    found = chosen.facts(case, observed, RIGHT)
    return {each.name: each.value for each in found if each.value}


@pytest.mark.parametrize(
    ("plan", "broken"),
    [
        (None, "without_names"),
        (Plan(data=2), "not_all_devices"),
        (Plan(tensor=4), "heads_left_over"),
        (Plan(pipeline=4), "layers_left_over"),
        (Plan(data=4, micro_batch=2), "micro_batch_left_over"),
        (Plan(tensor=2, pipeline=2, zero_stage=1), "nothing_to_share"),
    ],
)
def test_each_rule_has_a_name(plan, broken):
    assert numbers(plan) == {broken: 1}


def test_bytes_come_before_seconds():
    assert numbers(Plan(tensor=2, data=2)) == {"percent_too_large": 50}
    assert numbers(Plan(data=4)) == {"percent_slower": 2.041}


def test_by_the_clock_ten_per_cent_are_allowed_of_plans_that_ran():
    assert numbers(Plan(data=4), CLOCK) == {}
    assert numbers(Plan(data=4, zero_stage=1), CLOCK) == {"never_run": 1}
    assert numbers(Plan(tensor=2, pipeline=2, zero_stage=1), CLOCK) == {"nothing_to_share": 1}


def test_where_nothing_fits_an_error_is_right():
    assert numbers(None, what="refused") == {}
    assert numbers(None, what="nothing") == {"not_refused": 1}
