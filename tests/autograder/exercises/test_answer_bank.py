"""Every answer bank against its check: questions, stubs, new sizes, and cases of many seeds.

What answers are told is tested with the ledger. Practice is as students have it, from the pack. Of
all seeds some are tried, others whenever what is recorded of the exercise changes; with
`ALL_ANSWERS=1` in the environment all of them. `make acceptance` tries every known mistake on the
practice cases of another machine.

All tests of an exercise run in one process, where each of its cases is measured once.
"""

import copy
import dataclasses
import importlib

import pytest

from autograder import catalogue
from autograder.checking import practice_pack
from autograder.checking.judges import ImplementationJudge
from autograder.checking.lookup import check_of, graded_check_of, practice_check_of
from autograder.checking.mistakes import Symptom
from autograder.checking.plain_data import pack
from autograder.checking.scoring import score_answer
from autograder.checking.seeds import AGAIN_SEEDS, NUM_GRADING_SEEDS, PRACTICE_SEEDS
from autograder.exercises.model_answers import ChangedAnswer, model_answer
from tests.answer_bank import AnswerBank, make
from tests.answer_bank.every import ANSWER_BANKS
from tests.ledger import STUB, in_ledger
from tests.sampling import ALL, chance

OTHER_SEEDS = range(200, 200 + NUM_GRADING_SEEDS)[: None if ALL else 1]
MANY_SEEDS = range(1000, 1200)
NUM_SEEDS = len(MANY_SEEDS) if ALL else 40
NUM_SEEDS_OF_AN_IMPLEMENTATION = 20 if ALL else 4  # each case really runs it
EXERCISES = [item for unit in catalogue.units() for item in unit.exercises if not item.manual]
EDITED = [
    (name, number, mistake)
    for name in ANSWER_BANKS
    for number, mistake in enumerate(check_of(name).judge.mistakes)
    if isinstance(mistake, ChangedAnswer) and not mistake.is_generated
]


def some_seeds(exercise, count):
    """So many of all seeds; the first ones of an implementation, where all are asked for."""
    return MANY_SEEDS[:count] if ALL else chance(exercise, "seeds").sample(MANY_SEEDS, count)


def made(exercise, source):
    return make(source, ANSWER_BANKS[exercise].function)


def another_right(exercise):
    """A right answer in another style; of a formula, floats where they hold its whole numbers."""
    bank, model = ANSWER_BANKS[exercise], model_answer(exercise)
    if not check_of(exercise).is_formula:
        return make(bank.right[0], bank.function)
    return lambda *sizes: as_floats(model(*sizes))


def as_floats(value):
    if isinstance(value, dict):
        return {name: as_floats(each) for name, each in value.items()}
    return float(value) if type(value) is int and float(value) == value else value


def verdicts(exercise, answer, seeds=PRACTICE_SEEDS):
    """The verdicts on one answer: what practice shows, and what grading shows."""
    check = practice_check_of(exercise) if seeds == PRACTICE_SEEDS else graded_check_of(exercise)
    return verdicts_on(exercise, score_answer(check, answer, seeds))


def verdicts_on(exercise, result):
    points = catalogue.exercise(exercise).points
    return [result.verdict(exercise, points, tell_all=tell_all) for tell_all in (True, False)]


def practice_verdict(exercise, source):
    return verdicts(exercise, made(exercise, source))[0]


@pytest.mark.parametrize("item", EXERCISES, ids=lambda item: item.id)
def test_every_exercise_has_a_full_answer_bank(item):
    bank = ANSWER_BANKS[item.id]
    assert len(bank.wrong) + sum(name == item.id for name, *_ in EDITED) >= 5
    assert len(bank.right) >= 2 or check_of(item.id).is_formula
    assert len({wrong.name for wrong in bank.wrong}) == len(bank.wrong)
    assert in_ledger(item.id)


@pytest.mark.parametrize("item", EXERCISES, ids=lambda item: item.id)
def test_answer_bank_defines_what_the_notebook_asks_for(item):
    assert ANSWER_BANKS[item.id].function == item.function


def test_every_edit_asks_a_question():
    assert all(mistake.hint.endswith("?") for _, _, mistake in EDITED)


@pytest.mark.parametrize("exercise", ANSWER_BANKS)
def test_every_symptom_is_in_the_answer_bank(exercise: str):
    for mistake in check_of(exercise).judge.mistakes:
        if isinstance(mistake, Symptom):
            assert any(wrong.hint in mistake.hint for wrong in ANSWER_BANKS[exercise].wrong), (
                mistake.hint
            )


@pytest.mark.parametrize("exercise", ANSWER_BANKS)
def test_questions_are_asked_of_what_there_is(exercise: str):
    check = graded_check_of(exercise)
    if isinstance(check.judge, ImplementationJudge):  # numbers have their questions with them
        there = set(check.judge.scenarios)
    else:
        there = {name for case in check.cases(OTHER_SEEDS[0]) for name in check.judge.wanted(case)}
    assert check.judge.questions.keys() <= there
    assert all(question.endswith("?") for question in check.judge.questions.values())


@pytest.mark.parametrize(
    "exercise",
    [name for name in ANSWER_BANKS if isinstance(check_of(name).judge, ImplementationJudge)],
)
def test_a_pack_names_the_module_with_observe_and_the_exercises_own_facts(exercise: str):
    """Exercises may share an `observe`, so that only its name tells which facts are theirs."""
    check = check_of(exercise)
    observer = importlib.import_module(check.observer)
    assert (observer.observe, observer.facts) == (check.observe, check.judge.facts)
    assert practice_check_of(exercise).judge.facts is check.judge.facts


@pytest.mark.parametrize("exercise", ANSWER_BANKS)
def test_new_sizes_are_recorded_and_judge_as_the_staffs_check_does(exercise: str):
    first, other = (check_of(exercise).cases(seed) for seed in (*PRACTICE_SEEDS, *AGAIN_SEEDS))
    recorded = practice_pack.is_recorded(exercise, again=True)
    assert recorded == (pack(first) != pack(other))
    if not recorded:
        return
    check, bank = practice_check_of(exercise, again=True), ANSWER_BANKS[exercise]
    assert pack(check.cases(*AGAIN_SEEDS)) == pack(other)
    right = score_answer(check, another_right(exercise), AGAIN_SEEDS)
    edits = (mistake.answer for name, _, mistake in EDITED if name == exercise)
    mistaken = made(exercise, bank.wrong[0].source) if bank.wrong else next(edits)
    wrong = score_answer(check, mistaken, AGAIN_SEEDS)
    assert [verdicts_on(exercise, each)[0].passed for each in (right, wrong)] == [True, False]


@pytest.mark.parametrize("exercise", ANSWER_BANKS)
def test_stub_earns_nothing_and_is_not_called_wrong(exercise: str):
    verdict = practice_verdict(exercise, STUB.format(function=ANSWER_BANKS[exercise].function))
    assert verdict.points == 0
    assert verdict.sentence.startswith("Not written yet.")
    assert not verdict.written


@pytest.mark.parametrize("exercise", ANSWER_BANKS)
def test_cases_hold_every_feature_for_every_seed(exercise: str):
    bank: AnswerBank = ANSWER_BANKS[exercise]
    check = graded_check_of(exercise)
    for seed in some_seeds(exercise, NUM_SEEDS):
        cases = check.cases(seed)
        assert len(cases) >= 20
        for name, has in bank.features.items():
            assert any(has(case) for case in cases), f"no case with {name} for seed {seed}"


def with_the_reference_as_measure(exercise: str):
    """The check with the model answer in place of the instrument, for speed over many seeds.

    That it earns full marks shows on fewer seeds that the two are equal. Not for implementations:
    the course's own takes as long as the one that is checked.
    """
    check = graded_check_of(exercise)
    if check.judge.together:
        return check
    judge = copy.copy(check.judge)
    judge.measure, judge.cache = lambda **case: check.observe(model_answer(exercise), case), {}
    return dataclasses.replace(check, judge=judge)


@pytest.mark.parametrize("exercise", ANSWER_BANKS)
def test_right_answer_holds_over_many_seeds(exercise: str):
    check = with_the_reference_as_measure(exercise)
    count = NUM_SEEDS_OF_AN_IMPLEMENTATION if check.judge.together else NUM_SEEDS
    many = some_seeds(exercise, count)
    result = score_answer(check, another_right(exercise), many)
    verdict = result.verdict(exercise, catalogue.exercise(exercise).points, tell_all=True)
    assert verdict.passed, str(verdict)
