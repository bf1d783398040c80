"""What a plan comes to: only whole numbers of layers of real options count."""

import pytest

from autograder.observers.u05 import plan

OPTIONS = [
    {"name": "none", "kept_bytes": 10, "recomputed_flops": 0},
    {"name": "full", "kept_bytes": 1, "recomputed_flops": 4},
]
CASE = {"num_layers": 4, "options": OPTIONS, "cap_bytes": 12}


def numbers_of(answer):
    return {each.name: each.value for each in plan.facts(CASE, answer, {})}


def test_bytes_and_flops_are_summed_over_layers():
    assert numbers_of({"none": 1, "full": 3.0}) == {
        "unknown_names": 0,
        "odd_counts": 0,
        "planned_layers": 4,
        "bytes_above_cap": 1,
        "recomputed_flops": 12,
    }


@pytest.mark.parametrize("count", [-1, 0.5, True, None, "2", float("nan"), float("inf")])
def test_other_numbers_do_not_count(count):
    numbers = numbers_of({"none": count, "full": 3, "half": 1})
    assert (numbers["odd_counts"], numbers["unknown_names"]) == (1, 1)
    assert (numbers["planned_layers"], numbers["recomputed_flops"]) == (3, 12)


def test_something_else_than_a_dictionary_is_told():
    with pytest.raises(TypeError, match="wanted a dictionary from names"):
        plan.observe(lambda *case: ["none"], CASE)
