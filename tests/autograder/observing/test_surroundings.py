"""No exercise accepts an answer that leaves torch, or what it was given, other than it was."""

import inspect

import pytest
import torch
from torch import nn

from autograder import catalogue
from autograder.checking.lookup import check_of, practice_check_of
from autograder.exercises.model_answers import model_answer
from autograder.observing.observation import errors_as_data
from autograder.observing.surroundings import (
    SETTINGS,
    WANTS_GRADIENTS,
    LeftChanged,
    left_as_found,
)

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
    *("u04-fragment", "u05-plan", "u05-policy", "u08-mean-of-means", "u08-noise-scale"),
    *("u09-memory", "u11-zigzag", "u12-gpipe", "u12-one-f-one-b", "u12-zero", "u12-interleaved"),
    *("u12-stages", "u14-plan"),
}
# Their checks ask sharper questions about what is left changed.
SHARPER = {"u04-repair-training", "u07-master", "u09-dropout"}


def leaving(setting, value, answer=lambda *given: given):
    """An answer that works and leaves a setting changed."""

    def wrong(*given):
        result = answer(*given)
        setting.put(value)
        return result

    return wrong


@pytest.mark.parametrize(("setting", "value"), [*zip(SETTINGS, OTHER_VALUES, strict=True)])
def test_a_changed_setting_is_put_back_and_said(setting, value):
    before = setting.get()
    assert before != value
    with pytest.raises(LeftChanged, match=setting.changed):
        left_as_found(leaving(setting, value))()
    assert setting.get() == before


@pytest.mark.parametrize("wrap", [lambda each: each, lambda each: [{"weights": each}]])
def test_what_is_given_wants_gradients_as_before(wrap):
    def wrong(given):
        tensor.requires_grad_()

    tensor = torch.ones(3)
    with pytest.raises(LeftChanged, match=WANTS_GRADIENTS):
        left_as_found(wrong)(wrap(tensor))
    assert not tensor.requires_grad


def test_frozen_parameters_stay_frozen():
    layer = nn.Linear(2, 2)
    layer.bias.requires_grad_(False)
    with pytest.raises(LeftChanged, match=WANTS_GRADIENTS):
        left_as_found(lambda module: module.requires_grad_())(layer)
    assert not layer.bias.requires_grad


def test_what_is_left_as_found_returns_and_an_error_is_its_own():
    def failing():
        torch.set_grad_enabled(False)
        raise ValueError("of the student's")

    assert left_as_found(lambda x, y: x + y)(1, y=2) == 3
    with pytest.raises(ValueError, match="of the student's"):
        left_as_found(failing)()
    assert torch.is_grad_enabled()


def test_it_is_told_with_a_question():
    @errors_as_data
    def observe(answer, case):
        return answer()

    found = observe(leaving(SETTINGS[0], False), {})
    assert found == {"trouble": "left", "what": SETTINGS[0].changed, "printed_characters": 0}


@pytest.mark.parametrize(
    "exercise", [*filter(lambda each: each not in PLAIN | SHARPER, IMPLEMENTATIONS)]
)
def test_every_exercise_sees_it(exercise):
    check = practice_check_of(exercise)
    wrong = leaving(SETTINGS[1], torch.float64, model_answer(exercise))
    observed = check.observe(wrong, check.cases(0)[0])
    torch.set_default_dtype(torch.float32)
    assert SETTINGS[1].changed in str(observed)
