"""The model answers of the text masters, and the mistakes that are made of them."""

from autograder.checking.judges import ValueJudge
from autograder.checking.mistakes import ONLY
from autograder.exercises import model_answers
from autograder.exercises.model_answers import (
    ChangedAnswer,
    mistakes_of,
    model_answer,
    model_source,
    questions_of,
)
from autograder.mistake_file import Change, Section

EXERCISE = "u01-matmul-flops"
FORWARD = "2 * rows * inner * columns"


def test_the_model_answer_comes_from_the_master_with_what_it_reads():
    assert model_source(EXERCISE).startswith("def matmul_flops(")
    assert model_answer(EXERCISE)(2, 3, 5) == {"forward_flops": 60, "backward_flops": 120}
    allocator = model_answer("u04-allocator")  # a class that reads given functions
    assert allocator.__name__ == "Allocator"


def test_mistakes_and_questions_come_from_the_units_file():
    first, *_ = mistakes_of(EXERCISE)
    assert first.hint.startswith("Almost: a float32 keeps 24 bits")
    assert "int(torch.tensor(2.0 * rows * inner * columns))" in first.source
    assert questions_of(EXERCISE) == {}
    assert all(each.endswith("?") for each in questions_of("u09-buckets").values())


def test_an_exercise_without_mistakes_has_those_that_are_generated(monkeypatch):
    monkeypatch.setattr(model_answers, "_section", lambda exercise: Section())
    assert all(each.is_generated for each in mistakes_of(EXERCISE))


CASE = {"rows": 2, "inner": 3, "columns": 5}
JUDGE = ValueJudge(lambda rows, inner, columns: {"forward_flops": 60, "backward_flops": 120})


def changed(old, new, known_by=()):
    source = Change(old, new).candidates(model_source(EXERCISE))[0]
    return ChangedAnswer(EXERCISE, "Why?", source, known_by=known_by)


def numbers_of(old, new, known_by=()):
    return changed(old, new, known_by).numbers(CASE, JUDGE.wrong_numbers)


def test_an_edited_answer_is_known_by_the_numbers_that_it_gets_wrong():
    assert numbers_of("2 * one_product", "one_product") == {"backward_flops": 60}
    assert numbers_of(FORWARD, "rows") == {"forward_flops": 2, "backward_flops": 4}
    assert numbers_of(FORWARD, "rows", known_by=("forward_flops",)) == {"forward_flops": 2}


def test_an_edit_that_raises_is_known_by_nothing():
    assert numbers_of(FORWARD, "1 // 0") == {}
    assert numbers_of(FORWARD, "'words'") == {}


def test_each_case_runs_an_edit_once(monkeypatch):
    mistake = changed(FORWARD, "rows")
    first = mistake.numbers(CASE, JUDGE.wrong_numbers)
    monkeypatch.setattr(model_answers, "observe_within_limits", None)
    assert mistake.numbers(CASE, JUDGE.wrong_numbers) == first


def test_a_generated_mistake_without_end_is_not_tried_again(monkeypatch):
    monkeypatch.setattr(model_answers, "GENERATED_SECONDS", 0.05)
    source = (
        "def matmul_flops(rows, inner, columns):\n    while inner == 3:\n        pass\n    return 7"
    )
    mistake = ChangedAnswer(EXERCISE, "Why?", source, is_generated=True)
    judge = ValueJudge(lambda rows, inner, columns: 60)
    assert mistake.numbers(CASE | {"inner": 4}, judge.wrong_numbers) == {ONLY: 7}
    assert mistake.numbers(CASE, judge.wrong_numbers) == {}
    monkeypatch.setattr(model_answers, "observe_within_limits", None)
    assert mistake.numbers(CASE | {"inner": 5}, judge.wrong_numbers) == {}
    assert mistake.endless == [CASE]
