import math

import pytest
import torch

from autograder.checking.fact import Fact
from autograder.checking.judges import UNREADABLE, ImplementationJudge
from autograder.checking.result_form import (
    LARGEST,
    WrongForm,
    is_number,
    require_as_many,
    require_form,
    require_number,
)

RIGHT = torch.ones(2, 3, dtype=torch.float64)
CASE = {"scenario": "one"}


@pytest.mark.parametrize("value", [0, -1, LARGEST, 1.5, math.nan, -math.inf])
def test_numbers(value):
    assert is_number(value)
    assert isinstance(require_number(value), float)


@pytest.mark.parametrize("value", [True, None, "1", 1j, LARGEST + 1, 10**400, 1e200, [1]])
def test_no_numbers(value):
    assert not is_number(value)
    with pytest.raises(WrongForm, match=r"^wanted a loss, got "):
        require_number(value, "a loss")


@pytest.mark.parametrize(
    ("ours", "came"),
    [
        (RIGHT.float(), "a float32 tensor of shape (2, 3)"),
        (RIGHT.to(torch.complex64), "a complex64 tensor of shape (2, 3)"),
        (RIGHT[0], "a float64 tensor of shape (3,)"),
        (RIGHT.to_sparse(), "a sparse coo float64 tensor of shape (2, 3)"),
        (RIGHT.to("meta"), "a meta float64 tensor of shape (2, 3)"),
        (RIGHT.long(), "an int64 tensor of shape (2, 3)"),
        (None, "None"),
        (1.0, "a float"),
    ],
)
def test_both_forms_are_told(ours, came):
    if isinstance(ours, torch.Tensor) and (ours.is_meta or ours.is_sparse):
        ours, right = ours.to(torch.float64), RIGHT.float()
    else:
        right = RIGHT
    with pytest.raises(WrongForm) as error:
        require_form(ours, right)
    assert error.value.came == came


def test_as_many():
    require_as_many([1], [2])
    with pytest.raises(WrongForm):
        require_as_many([], [2])


def judge(facts):
    return ImplementationJudge(lambda scenario: {}, scenarios=("one", "other"), facts=facts)


@pytest.mark.parametrize(
    "got", [None, 5, [], "", {"trouble": 5}, {"trouble": []}, {"trouble": "raised"}, {"left": 1}]
)
def test_whatever_comes_costs_its_own_scenario(got):
    result = judge(lambda case, observed, right: [Fact("n", 1 - len(observed))])(CASE, got)
    assert result.right == {"one": False, "other": True}
    assert result.sentence.endswith(".")


def test_facts_of_the_wrong_form_says_what_was_wanted():
    def facts(case, observed, right):
        require_form(observed["tensor"], RIGHT)

    result = judge(facts)(CASE, {"tensor": RIGHT.float()})
    assert result.sentence == (
        "Expected a float64 tensor of shape (2, 3); got a float32 tensor of shape (2, 3)."
    )
    assert judge(facts)(CASE, {}).sentence == UNREADABLE
    assert judge(facts).wrong_numbers(CASE, {"tensor": RIGHT.float()}) == {}


def test_an_error_of_the_check_is_no_answers_fault():
    def fails(scenario):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        ImplementationJudge(fails, scenarios=("one",))(CASE, {"n": 0})
    with pytest.raises(NameError):
        judge(lambda case, observed, right: [Fact("n", misspelled)])(CASE, {"n": 0})  # noqa: F821
