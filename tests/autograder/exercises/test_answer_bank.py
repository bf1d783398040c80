"""Every answer bank against its check: each wrong answer loses its points and triggers its hint."""

import copy
import dataclasses
import itertools

import pytest

from autograder import catalogue
from autograder.checking import notebook_calls
from autograder.checking.check import score_answer
from tests.answer_bank import AnswerBank, Wrong, make
from tests.answer_bank.every import ANSWER_BANK

MANY_SEEDS = range(1000, 1200)
NUM_SEEDS_OF_AN_IMPLEMENTATION = 20  # it runs for real in every case
EXERCISES = [item for unit in catalogue.units() for item in unit.exercises if not item.manual]
WRONG = [(name, wrong) for name, bank in ANSWER_BANK.items() for wrong in bank.wrong]
RIGHT = [(name, n) for name, bank in ANSWER_BANK.items() for n in range(len(bank.right))]
STUB = "def {function}(*sizes):\n    raise NotImplementedError('not written yet')"


def examined(exercise, source, seeds=notebook_calls.PRACTICE_SEEDS):
    """Verdicts on one examination: what practice tells, and what grading does."""
    examination = score_answer(
        notebook_calls.find(exercise), make(source, ANSWER_BANK[exercise].function), seeds
    )
    points = catalogue.exercise(exercise).points
    return [examination.verdict(exercise, points, tell_all=each) for each in (True, False)]


def verdict(exercise, source):
    return examined(exercise, source)[0]


@pytest.mark.parametrize("item", EXERCISES, ids=lambda item: item.id)
def test_every_exercise_has_a_full_answer_bank(item):
    bank = ANSWER_BANK[item.id]
    assert len(bank.wrong) >= 5
    assert len(bank.right) >= 2
    assert len({wrong.name for wrong in bank.wrong}) == len(bank.wrong)


@pytest.mark.parametrize(("exercise", "wrong"), WRONG, ids=lambda part: getattr(part, "name", part))
def test_wrong_answer_loses_its_points_and_triggers_its_hint(exercise: str, wrong: Wrong):
    """Grading says sizes and hint, but not what was wanted."""
    for seeds in (notebook_calls.PRACTICE_SEEDS, range(7, 7 + notebook_calls.NUM_GRADING_SEEDS)):
        told, graded = examined(exercise, wrong.source, seeds)
        assert told.points == graded.points == wrong.points
        assert wrong.hint in told.hint, str(told)
        assert told.hint.endswith("?")
        assert "Wanted" not in graded.sentence
        assert graded.hint == told.hint


@pytest.mark.parametrize("exercise", ANSWER_BANK)
def test_every_known_mistake_is_in_the_answer_bank(exercise: str):
    for mistake in notebook_calls.find(exercise).judge.mistakes:
        assert any(wrong.hint in mistake.hint for wrong in ANSWER_BANK[exercise].wrong), (
            mistake.hint
        )


@pytest.mark.parametrize(("exercise", "number"), RIGHT)
def test_right_answer_in_another_style_earns_full_marks(exercise: str, number: int):
    told = verdict(exercise, ANSWER_BANK[exercise].right[number])
    assert told.passed, str(told)
    assert told.hint == ""


@pytest.mark.parametrize("exercise", ANSWER_BANK)
def test_stub_earns_nothing_and_is_not_called_wrong(exercise: str):
    told = verdict(exercise, STUB.format(function=ANSWER_BANK[exercise].function))
    assert told.points == 0
    assert told.sentence.startswith("Not written yet.")
    assert not told.written


@pytest.mark.parametrize("exercise", ANSWER_BANK)
def test_cases_hold_every_feature_for_every_seed(exercise: str):
    bank: AnswerBank = ANSWER_BANK[exercise]
    for seed in MANY_SEEDS:
        cases = notebook_calls.find(exercise).cases(seed)
        assert len(cases) >= 20
        for name, has in bank.features.items():
            assert any(has(case) for case in cases), f"no case with {name} for seed {seed}"


def with_the_reference_as_measure(exercise: str):
    """The check with the course's formula in the instrument's place, for many seeds at once.

    That the two are equal, the other tests of this module say on fewer seeds. The course's own
    implementation would run as long as the one that is checked.
    """
    check = notebook_calls.find(exercise)
    if check.judge.together:
        return check
    judge = copy.copy(check.judge)
    judge.measure, judge.measured = lambda **case: check.observe(check.reference, case), {}
    return dataclasses.replace(check, judge=judge)


@pytest.mark.parametrize("exercise", ANSWER_BANK)
def test_formula_and_instrument_agree_over_seeds(exercise: str):
    check = notebook_calls.find(exercise)
    for case in (case for seed in range(500, 504) for case in check.cases(seed)):
        finding = check.judge(case, check.observe(check.reference, case))
        assert finding.passed, f"{case}: {finding.sentence}"


@pytest.mark.parametrize("exercise", ANSWER_BANK)
def test_answer_bank_holds_over_many_seeds(exercise: str):
    """Every answer in turn, over two hundred seeds; a right one over all of them."""
    bank, check = ANSWER_BANK[exercise], with_the_reference_as_measure(exercise)
    num_seeds = max(NUM_SEEDS_OF_AN_IMPLEMENTATION, len(bank.wrong))  # each wrong answer in turn
    many = MANY_SEEDS[:num_seeds] if check.judge.together else MANY_SEEDS
    points = catalogue.exercise(exercise).points

    def told(source, seeds):
        examination = score_answer(check, make(source, bank.function), seeds)
        return examination.verdict(exercise, points, tell_all=True)

    assert told(bank.right[0], many).passed
    for seed, wrong in zip(many, itertools.cycle(bank.wrong), strict=False):
        verdict_now = told(wrong.source, [seed])
        assert verdict_now.points == wrong.points, str(verdict_now)
        assert wrong.hint in verdict_now.hint, f"seed {seed}: {verdict_now}"
