"""Answers of the wrong kind to every exercise: whatever they give, a check judges it.

Each answer meets one case; all kinds of cases come up in turn.
"""

from dataclasses import replace
from functools import cache, partial

import pytest

from autograder import catalogue
from autograder.checking.bounded_call import observe_within_limits
from autograder.checking.judges import UNREADABLE
from autograder.checking.lookup import check_of, practice_check_of
from autograder.checking.scoring import score_answer, score_cases
from autograder.checking.seeds import AGAIN_SEEDS, PRACTICE_SEEDS
from autograder.exercises.model_answers import model_answer
from tests.autograder.exercises.wrong_kinds import Effects, observed_only, wrong_answers

EXERCISES = [item for unit in catalogue.units() for item in unit.exercises if not item.manual]
MOST_KINDS = 8  # of cases
EVERY = 6  # of the answers is scored as in a notebook, and meets the staff's check, too
# A whole number as a float is right, with a remark; so is a dictionary with more than was asked.
STILL_RIGHT = ("result: float32", "result: an extra key")
DEEPER = "result: a dimension more"
RIGHT_THERE = {
    "u05-loss-in-pieces": (DEEPER,),  # one number is one number
    "u07-scaler": (DEEPER,),
    "u07-value": ("returns -inf", "returns nan"),  # a case asks for it
    "u09-global-mean": (DEEPER,),
    "u09-memory": (DEEPER,),  # buckets of any shape
    "u10-layer": ("result: longer",),  # torch takes what is None beyond the gradients
    "u15-clip": (DEEPER, "result: a list"),
}
IN_SCENARIOS = ("u04-repair-training", "u11-f-and-g")  # each judges one part of the result


@cache
def kinds_of_cases(exercise, is_graded):
    """The first case of each scenario, and of each other word among the cases."""
    check, seeds = check_of(exercise), AGAIN_SEEDS
    if not is_graded:
        check, seeds = practice_check_of(exercise), PRACTICE_SEEDS
    found, known = [], set()
    for case in check.cases(*seeds):
        words = {(name, each) for name, each in case.items() if type(each) is str}
        if not found or not words <= known:
            found.append(case)
            known |= words
    return check, found[:MOST_KINDS]


def verdict_on(item, answer, number, *, is_graded):
    check, cases = kinds_of_cases(item.id, is_graded)
    case = cases[(number + is_graded) % len(cases)]
    if number % EVERY == 0:
        one = replace(check, cases=lambda seed: [case], forbidden_modules=())
        result = score_answer(one, answer, (0,))
    else:  # what fails is not asked again, which would take three times as long
        result = score_cases(check, [case], partial(observe_within_limits, check.observe, answer))
    return result.verdict(item.id, item.points, tell_all=not is_graded)


def complaints(item, name, make, number, *, is_graded):
    """What is wrong with the verdict on an answer."""
    effects = Effects()
    answer = make(model_answer(item.id), effects)
    verdict = verdict_on(item, answer, number, is_graded=is_graded)
    may_pass = {*STILL_RIGHT, *RIGHT_THERE.get(item.id, ())}
    is_asked = name.startswith("returns") or (
        name.startswith("result") and item.id not in IN_SCENARIOS
    )
    if verdict.passed and effects.has_changed and is_asked and name not in may_pass:
        yield f"{name} passes"
    if not verdict.passed and not verdict.hint.endswith("?"):
        yield f"{name} has no question: {verdict}"
    if any(words in verdict.sentence for words in (UNREADABLE, "failed with")):
        yield f"{name} cannot be judged: {verdict}"


@pytest.mark.parametrize("item", EXERCISES, ids=lambda item: item.id)
def test_whatever_an_answer_gives_is_judged(item):
    effects = Effects()
    verdict_on(item, observed_only(model_answer(item.id), effects), 0, is_graded=False)
    assert effects.returned
    found = []
    for number, (name, make) in enumerate(wrong_answers(effects)):
        found += complaints(item, name, make, number, is_graded=False)
        if name.startswith(("returns", "result")) and number % EVERY == 0:
            found += complaints(item, name, make, number, is_graded=True)
    assert not found, "\n".join(found)
