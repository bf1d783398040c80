"""No exercise accepts an answer that leaves torch, or what it was given, other than it was."""

import inspect

import pytest
import torch
from torch import nn

from autograder import catalogue
from autograder.checking.judges import ImplementationJudge
from autograder.checking.lookup import check_of, practice_check_of
from autograder.exercises.model_answers import model_answer
from autograder.observers.side_effects import (
    SETTINGS,
    WANTS_GRADIENTS,
    settings_put_back,
    watched,
)
from autograder.observers.tools import errors_as_data

OTHER_VALUES = (False, torch.float64, True)  # than those in which a case begins
IMPLEMENTATIONS = [
    item.id
    for unit in catalogue.units()
    for item in unit.exercises
    if not item.manual
    and not check_of(item.id).is_formula
    and inspect.isfunction(model_answer(item.id))
]
# Nothing that their answers do runs under torch, or they see one sequence of numbers.
PLAIN = {
    "u04-snapshot",
    "u05-plan",
    "u05-policy",
    "u08-mean-of-means",
    "u09-memory",
    "u11-zigzag",
    "u12-gpipe",
    "u12-one-f-one-b",
    "u12-zero",
    "u12-interleaved",
    "u08-noise-scale",
    "u12-stages",
    "u14-plan",
}


def leaving(setting, value, answer=lambda *given: given):
    """An answer that works and leaves a setting changed."""

    def wrong(*given):
        result = answer(*given)
        setting.put(value)
        return result

    return wrong


def complaints_about(answer, *given):
    """What is said after a call."""
    complaints = []
    with settings_put_back():
        watched(answer, complaints, [])(*given)
    return complaints


@pytest.mark.parametrize(("setting", "value"), [*zip(SETTINGS, OTHER_VALUES, strict=True)])
def test_a_changed_setting_is_put_back_and_said(setting, value):
    before = setting.get()
    assert before != value
    assert complaints_about(leaving(setting, value)) == [setting.changed]
    assert setting.get() == before


@pytest.mark.parametrize("wrap", [lambda each: each, lambda each: [{"weights": each}]])
def test_what_is_given_wants_gradients_as_before(wrap):
    def wrong(given):
        tensor.requires_grad_()

    tensor = torch.ones(3)
    assert complaints_about(wrong, wrap(tensor)) == [WANTS_GRADIENTS]


def test_frozen_parameters_stay_frozen():
    layer = nn.Linear(2, 2)
    layer.bias.requires_grad_(False)
    assert complaints_about(lambda module: module.requires_grad_(), layer) == [WANTS_GRADIENTS]


def test_what_is_left_as_found_returns_and_an_error_is_its_own():
    def failing():
        torch.set_grad_enabled(False)
        raise ValueError("of the student's")

    complaints = []
    assert watched(lambda x, y: x + y, complaints, [])(1, y=2) == 3
    assert complaints == []
    with pytest.raises(ValueError, match="of the student's"):
        complaints_about(failing)
    assert torch.is_grad_enabled()


LEFT = {"trouble": "left", "what": SETTINGS[0].changed, "printed_characters": 0}


def test_it_stands_beside_what_was_observed():
    @errors_as_data
    def observe(answer, case):
        answer()
        return {"number": 3}

    assert observe(leaving(SETTINGS[0], False), {}) == {"number": 3, "left": LEFT}
    assert observe(lambda: None, {}) == {"number": 3}


def test_it_is_told_where_nothing_else_is_wrong():
    judge = ImplementationJudge(lambda **case: {"number": 3})
    said = judge({}, {"number": 3, "left": LEFT})
    assert not said.passed
    assert said.sentence == f"{SETTINGS[0].changed}."
    assert next(iter(said.hints)).endswith("?")
    assert judge({}, {"number": 4, "left": LEFT}).sentence == judge({}, {"number": 4}).sentence
    assert judge({}, {"number": 3}).passed


@pytest.mark.parametrize("exercise", [each for each in IMPLEMENTATIONS if each not in PLAIN])
def test_every_exercise_sees_it(exercise):
    check = practice_check_of(exercise)
    wrong = leaving(SETTINGS[1], torch.float64, model_answer(exercise))
    observed = check.observe(wrong, check.cases(0)[0])
    assert torch.get_default_dtype() == torch.float32
    # `u07-stochastic` calls twice, and the second call fails by what the first has left
    assert SETTINGS[1].changed in str(observed) or observed["trouble"] == "raised"
