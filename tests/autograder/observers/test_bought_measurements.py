"""What is wrong with predictions from bought runs: the first that is."""

import math

import pytest

from autograder.observers.u14 import budget
from autograder.observers.u14.budget import facts, observe

ROWS = [["a", 1, 1, 1, 8, 10, 0.1, 0.5, 0.0], ["b", 1, 1, 1, 8, 10, 0.01, 0.5, 0.0]]
CASE = {
    "draw": 0,
    "offers": [[*row, 1.6] for row in ROWS],
    "asked": [["c", 1, 1, 1, 4, 10, 0.1, 0.0, 0.0], ["d", 1, 1, 1, 4, 20, 0.1, 0.0, 0.0]],
    "budget": 0.5,
    "scenario": "in each kind",
}
RIGHT = {"seconds": [1.0, 2.0], "kinds": ["gpu", "launch"], "tells": ["gpu", "launch"]}


def wrong(answer, scenario="in each kind"):
    case = CASE | {"scenario": scenario}
    found = facts(case, observe(answer, case), RIGHT)
    return {each.name: each.value for each in found if each.value}


def buys_one(*seconds):
    def answer(shop, asked):
        shop.buy(shop.offers[0])
        return list(seconds)

    return answer


@pytest.mark.parametrize(
    ("answer", "name"),
    [
        (lambda shop, asked: [shop.buy(run) for run in shop.offers], "over_budget"),
        (lambda shop, asked: [shop.buy(run) for run in asked], "not_on_offer"),
        (lambda shop, asked: [1.0, math.nan], "not_a_number"),
        (lambda shop, asked: [3.0, 2.0], "nothing_bought"),
    ],
)
def test_what_was_bought_comes_first(answer, name):
    assert wrong(answer) == {name: 1}


def test_each_kind_has_its_median():
    assert wrong(buys_one(1.1, 2.2)) == {}
    assert wrong(buys_one(1.0, 3.0)) == {"launch_percent": 50}
    assert wrong(buys_one(1.35, 4.0)) == {"gpu_percent": 35}
    assert wrong(buys_one(1.2, 3.0), budget.IN_MEDIAN) == {"median_percent": 35}


def test_the_same_factor_throughout_is_told():
    assert wrong(buys_one(8.0, 16.0)) == {"one_factor": 8}


def test_bought_runs_of_the_kind_are_counted():
    case_facts = {each.name: each for each in facts(CASE, observe(buys_one(3.0, 2.0), CASE), RIGHT)}
    assert case_facts["gpu_percent"].label.endswith("You bought 1 such run.")
    assert case_facts["launch_percent"].label.endswith("You bought 0 such runs.")
