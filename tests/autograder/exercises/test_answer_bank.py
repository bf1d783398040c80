"""Every answer bank against its check: each wrong answer loses its points and triggers its hint."""

import copy
import dataclasses
import itertools

import pytest

from autograder import catalogue
from autograder.checking.lookup import check_of
from autograder.checking.scoring import score_answer
from autograder.checking.seeds import NUM_GRADING_SEEDS, PRACTICE_SEEDS
from tests.answer_bank import AnswerBank, Wrong, make
from tests.answer_bank.every import ANSWER_BANKS

MANY_SEEDS = range(1000, 1200)
NUM_SEEDS_OF_AN_IMPLEMENTATION = 20  # each case really runs it
EXERCISES = [item for unit in catalogue.units() for item in unit.exercises if not item.manual]
WRONG = [(name, wrong) for name, bank in ANSWER_BANKS.items() for wrong in bank.wrong]
RIGHT = [(name, n) for name, bank in ANSWER_BANKS.items() for n in range(len(bank.right))]
STUB = "def {function}(*sizes):\n    raise NotImplementedError('not written yet')"


def verdicts(exercise, source, seeds=PRACTICE_SEEDS):
    """The verdicts on one answer: what practice shows, and what grading shows."""
    result = score_answer(check_of(exercise), make(source, ANSWER_BANKS[exercise].function), seeds)
    points = catalogue.exercise(exercise).points
    return [result.verdict(exercise, points, tell_all=tell_all) for tell_all in (True, False)]


def practice_verdict(exercise, source):
    return verdicts(exercise, source)[0]


@pytest.mark.parametrize("item", EXERCISES, ids=lambda item: item.id)
def test_every_exercise_has_a_full_answer_bank(item):
    bank = ANSWER_BANKS[item.id]
    assert len(bank.wrong) >= 5
    assert len(bank.right) >= 2
    assert len({wrong.name for wrong in bank.wrong}) == len(bank.wrong)


@pytest.mark.parametrize("item", EXERCISES, ids=lambda item: item.id)
def test_answer_bank_defines_what_the_notebook_asks_for(item):
    assert ANSWER_BANKS[item.id].function == item.function


@pytest.mark.parametrize(("exercise", "wrong"), WRONG, ids=lambda part: getattr(part, "name", part))
def test_wrong_answer_loses_its_points_and_triggers_its_hint(exercise: str, wrong: Wrong):
    """Grading shows sizes and hint, but not what was wanted."""
    for seeds in (PRACTICE_SEEDS, range(7, 7 + NUM_GRADING_SEEDS)):
        practised, graded = verdicts(exercise, wrong.source, seeds)
        assert practised.points == graded.points == wrong.points
        assert wrong.hint in practised.hint, str(practised)
        assert practised.hint.endswith("?")
        assert "Wanted" not in graded.sentence
        assert graded.hint == practised.hint


@pytest.mark.parametrize("exercise", ANSWER_BANKS)
def test_every_known_mistake_is_in_the_answer_bank(exercise: str):
    for mistake in check_of(exercise).judge.mistakes:
        assert any(wrong.hint in mistake.hint for wrong in ANSWER_BANKS[exercise].wrong), (
            mistake.hint
        )


@pytest.mark.parametrize(("exercise", "number"), RIGHT)
def test_right_answer_in_another_style_earns_full_marks(exercise: str, number: int):
    verdict = practice_verdict(exercise, ANSWER_BANKS[exercise].right[number])
    assert verdict.passed, str(verdict)
    assert verdict.hint == ""


@pytest.mark.parametrize("exercise", ANSWER_BANKS)
def test_stub_earns_nothing_and_is_not_called_wrong(exercise: str):
    verdict = practice_verdict(exercise, STUB.format(function=ANSWER_BANKS[exercise].function))
    assert verdict.points == 0
    assert verdict.sentence.startswith("Not written yet.")
    assert not verdict.written


@pytest.mark.parametrize("exercise", ANSWER_BANKS)
def test_cases_hold_every_feature_for_every_seed(exercise: str):
    bank: AnswerBank = ANSWER_BANKS[exercise]
    for seed in MANY_SEEDS:
        cases = check_of(exercise).cases(seed)
        assert len(cases) >= 20
        for name, has in bank.features.items():
            assert any(has(case) for case in cases), f"no case with {name} for seed {seed}"


def with_the_reference_as_measure(exercise: str):
    """The check with the course's formula in place of the instrument, for speed over many seeds.

    Other tests of this module show on fewer seeds that the two are equal. Not for implementations:
    the course's own takes as long as the one that is checked.
    """
    check = check_of(exercise)
    if check.judge.together:
        return check
    judge = copy.copy(check.judge)
    judge.measure, judge.cache = lambda **case: check.observe(check.reference, case), {}
    return dataclasses.replace(check, judge=judge)


@pytest.mark.parametrize("exercise", ANSWER_BANKS)
def test_formula_and_instrument_agree_over_seeds(exercise: str):
    check = check_of(exercise)
    for case in (case for seed in range(500, 504) for case in check.cases(seed)):
        result = check.judge(case, check.observe(check.reference, case))
        assert result.passed, f"{case}: {result.sentence}"


@pytest.mark.parametrize("exercise", ANSWER_BANKS)
def test_answer_bank_holds_over_many_seeds(exercise: str):
    """A right answer over all seeds; the wrong ones in turn, one per seed."""
    bank, check = ANSWER_BANKS[exercise], with_the_reference_as_measure(exercise)
    num_seeds = max(NUM_SEEDS_OF_AN_IMPLEMENTATION, len(bank.wrong))  # each wrong answer in turn
    many = MANY_SEEDS[:num_seeds] if check.judge.together else MANY_SEEDS
    points = catalogue.exercise(exercise).points

    def verdict_on(source, seeds):
        result = score_answer(check, make(source, bank.function), seeds)
        return result.verdict(exercise, points, tell_all=True)

    assert verdict_on(bank.right[0], many).passed
    for seed, wrong in zip(many, itertools.cycle(bank.wrong), strict=False):
        verdict = verdict_on(wrong.source, [seed])
        assert verdict.points == wrong.points, str(verdict)
        assert wrong.hint in verdict.hint, f"seed {seed}: {verdict}"
