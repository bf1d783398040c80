"""A plan is made with names, is copied like any data, and a table says which plan it lacks."""

import copy
import pickle
from dataclasses import replace

import pytest

from course_utils.configs import PLAN_TAKES_NAMES, Costs, NoSuchPlan, Plan, machine_of


def test_numbers_without_names_are_refused_in_words():
    with pytest.raises(TypeError, match="got 2 without a name") as error:
        Plan(4, 1)
    assert str(error.value).startswith(PLAN_TAKES_NAMES)


def test_a_plan_is_copied_like_any_data():
    plan = Plan(data=4, zero_stage=1)
    for same in (copy.deepcopy(plan), pickle.loads(pickle.dumps(plan)), replace(plan, data=4)):
        assert same == plan


def test_a_table_names_the_plan_that_it_lacks():
    costs = Costs({Costs.key(Plan(data=4)): [10, 2.0]})
    assert (costs.bytes_of(Plan(data=4)), costs.seconds_of(Plan(data=4))) == (10, 2.0)
    with pytest.raises(NoSuchPlan, match="d 2 t 1 p 1, stage 0, micro-batch 1: no such plan") as it:
        costs.bytes_of(Plan(data=2))
    assert it.value.plan == Plan(data=2)


@pytest.mark.parametrize(
    "change",
    [
        {"num_devices": 0},
        {"adapter_bytes_per_second": -1},
        {"matmul_flops_per_second": 0},
        {"memory_bytes": -1},
        {"launch_seconds": -1e-3},
    ],
    ids=str,
)
def test_what_no_machine_is_is_refused(change):
    (name,) = change
    with pytest.raises(ValueError, match=f"Machine: {name} must be "):
        replace(machine_of("A100-80", 8), **change)


@pytest.mark.parametrize(
    ("name", "ranks"),
    [
        ("context", "context"),
        ("cp", "context"),
        ("context_parallel", "context"),
        ("expert", "expert"),
        ("ep", "expert"),
    ],
)
def test_ranks_that_a_plan_does_not_know_are_refused_in_words(name, ranks):
    with pytest.raises(ValueError, match=f"no {ranks} ranks here"):
        Plan(**{name: 2})
