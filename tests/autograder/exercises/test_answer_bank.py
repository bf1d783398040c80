"""Every answer bank against its check: each wrong answer loses its points and triggers its hint.

Known mistakes are edits of the model answer: each edited answer is a wrong one, too. Practice is as
students have it, from the pack. A tenth of the edits is tried here, and of all seeds some, others
whenever what is recorded of the exercise changes; with `ALL_ANSWERS=1` in the environment all of
them. `make acceptance` tries every edit on the practice cases of another machine. What answers are
told that are in the ledger is tested there.

All tests of an exercise run in one process, where each of its cases is measured once.
"""

import copy
import dataclasses

import pytest

from autograder import catalogue
from autograder.checking import practice_pack
from autograder.checking.judges import Behaviour
from autograder.checking.lookup import check_of, graded_check_of, practice_check_of
from autograder.checking.mistakes import Symptom
from autograder.checking.plain_data import pack
from autograder.checking.scoring import score_answer
from autograder.checking.seeds import AGAIN_SEEDS, NUM_GRADING_SEEDS, PRACTICE_SEEDS
from autograder.exercises.model_answers import ChangedAnswer, model_answer
from tests.answer_bank import AnswerBank, Wrong, make
from tests.answer_bank.every import ANSWER_BANKS
from tests.ledger import STUB, in_ledger
from tests.sampling import ALL, chance, is_chosen

SHARE = 1 if ALL else 10  # one of so many edits
OTHER_SEEDS = range(200, 200 + NUM_GRADING_SEEDS)[: None if ALL else 1]
MANY_SEEDS = range(1000, 1200)
NUM_SEEDS = len(MANY_SEEDS) if ALL else 40
NUM_SEEDS_OF_AN_IMPLEMENTATION = 20 if ALL else 4  # each case really runs it
EXERCISES = [item for unit in catalogue.units() for item in unit.exercises if not item.manual]
LEFT = {name: bank for name, bank in ANSWER_BANKS.items() if not in_ledger(name)}
WRONG = [(name, wrong) for name, bank in LEFT.items() for wrong in bank.wrong]
RIGHT = [(name, n) for name, bank in LEFT.items() for n in range(len(bank.right))]
EDITED = [
    (name, number, mistake)
    for name in ANSWER_BANKS
    for number, mistake in enumerate(check_of(name).judge.mistakes)
    if isinstance(mistake, ChangedAnswer) and not mistake.is_generated
]


TRIED = [each for each in EDITED if each[0] in LEFT and is_chosen(each[0], each[1], SHARE)]


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


def graded_verdicts_on_an_edit(exercise, mistake):
    """It runs once in each case: what it gives as an answer is what it is known by.

    So edits come before other wrong answers, which are compared with all of them.
    """
    check = graded_check_of(exercise)
    result = score_answer(check, mistake.answer, OTHER_SEEDS)
    for case, judged in ((each.case, each.result) for each in result.cases):
        given, wanted = judged.given, judged.wanted
        wrong = (name for name in wanted if check.judge.differ(given[name], wanted[name]))
        mistake.keep(case, {name: given[name] for name in wrong})
    return verdicts_on(exercise, result)


def practice_verdict(exercise, source):
    return verdicts(exercise, made(exercise, source))[0]


@pytest.mark.parametrize("item", EXERCISES, ids=lambda item: item.id)
def test_every_exercise_has_a_full_answer_bank(item):
    bank = ANSWER_BANKS[item.id]
    assert len(bank.wrong) + sum(name == item.id for name, *_ in EDITED) >= 5
    assert len(bank.right) >= 2 or check_of(item.id).is_formula
    assert len({wrong.name for wrong in bank.wrong}) == len(bank.wrong)


@pytest.mark.parametrize("item", EXERCISES, ids=lambda item: item.id)
def test_answer_bank_defines_what_the_notebook_asks_for(item):
    assert ANSWER_BANKS[item.id].function == item.function


def test_every_edit_asks_a_question():
    assert all(mistake.hint.endswith("?") for _, _, mistake in EDITED)


@pytest.mark.parametrize(
    ("exercise", "mistake"),
    [(name, mistake) for name, _, mistake in TRIED],
    ids=[f"{name}: edit {number} ({mistake.hint[:40]})" for name, number, mistake in TRIED],
)
def test_edit_of_the_model_answer_loses_its_points_and_triggers_its_hint(exercise, mistake):
    for practised, graded in (
        verdicts(exercise, mistake.answer),
        graded_verdicts_on_an_edit(exercise, mistake),
    ):
        assert practised.points == graded.points == mistake.points
        assert practised.hint == mistake.hint, str(practised)
        assert "Expected" not in graded.sentence
        assert graded.hint == practised.hint


@pytest.mark.parametrize(
    ("exercise", "wrong"), WRONG, ids=[f"{name}: {wrong.name}" for name, wrong in WRONG]
)
def test_wrong_answer_loses_its_points_and_triggers_its_hint(exercise: str, wrong: Wrong):
    """Grading shows sizes and hint, but not what was wanted."""
    for seeds in (PRACTICE_SEEDS, OTHER_SEEDS):
        practised, graded = verdicts(exercise, made(exercise, wrong.source), seeds)
        assert practised.points == graded.points == wrong.points
        assert wrong.hint in practised.hint, str(practised)
        assert practised.hint.endswith("?")
        assert "Expected" not in graded.sentence
        assert graded.hint == practised.hint


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
    if isinstance(check.judge, Behaviour):  # numbers have their questions with them
        there = set(check.judge.scenarios)
    else:
        there = {name for case in check.cases(OTHER_SEEDS[0]) for name in check.judge.wanted(case)}
    assert check.judge.questions.keys() <= there
    assert all(question.endswith("?") for question in check.judge.questions.values())


@pytest.mark.parametrize("exercise", LEFT)
def test_model_answer_earns_full_marks(exercise: str):
    for seeds in (PRACTICE_SEEDS, OTHER_SEEDS):
        verdict, _ = verdicts(exercise, model_answer(exercise), seeds)
        assert verdict.passed, str(verdict)


@pytest.mark.parametrize(
    ("exercise", "number"), RIGHT, ids=[f"{name}: {number}" for name, number in RIGHT]
)
def test_right_answer_in_another_style_earns_full_marks(exercise: str, number: int):
    verdict = practice_verdict(exercise, ANSWER_BANKS[exercise].right[number])
    assert verdict.passed, str(verdict)
    assert verdict.hint == ""


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
