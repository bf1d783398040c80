"""The model answers of the text masters, and what edits make of them."""

import pytest

from autograder.checking.judges import EqualTo
from autograder.checking.mistakes import ONLY
from autograder.exercises import model_answers
from autograder.exercises.model_answers import (
    ChangedAnswer,
    Edit,
    any_of,
    each_also,
    edited,
    edited_source,
    model_answer,
    model_source,
)

EXERCISE = "u01-matmul-flops"
FORWARD = "2 * rows * inner * columns"


def test_the_model_answer_comes_from_the_master_with_what_it_reads():
    assert model_source(EXERCISE).startswith("def matmul_flops(")
    assert model_answer(EXERCISE)(2, 3, 5) == {"forward_flops": 60, "backward_flops": 120}
    allocator = model_answer("u04-allocator")  # a class that reads given functions
    assert allocator.__name__ == "Allocator"


def test_an_edit_changes_one_place_of_it():
    source = edited_source(EXERCISE, {FORWARD: "rows * inner * columns"})
    assert "one_product = rows * inner * columns\n" in source
    assert "2 * one_product" in source


@pytest.mark.parametrize(("piece", "count"), [("no such text", 0), ("one_product", 3)])
def test_a_piece_that_does_not_stand_there_once_is_refused(piece, count):
    with pytest.raises(ValueError, match=f"has '{piece}' {count} times, not once"):
        edited_source(EXERCISE, {piece: "1"})


def test_a_mistake_in_several_places_is_every_combination_of_them():
    edits = any_of("Where?", {"a": "1"}, {"b": "2"}, {"c": "3"}, points=0.5)
    assert [edit.pieces for edit in edits] == [
        {"a": "1"},
        {"b": "2"},
        {"c": "3"},
        {"a": "1", "b": "2"},
        {"a": "1", "c": "3"},
        {"b": "2", "c": "3"},
        {"a": "1", "b": "2", "c": "3"},
    ]
    assert {(edit.hint, edit.points) for edit in edits} == {("Where?", 0.5)}


def test_edits_may_come_with_another_one_each():
    edits = each_also([Edit("Why?", {"a": "1"}), Edit("Which?", {"b": "2"})], {"up": "down"})
    assert [(edit.hint, edit.pieces) for edit in edits] == [
        ("Why?", {"a": "1"}),
        ("Why?", {"a": "1", "up": "down"}),
        ("Which?", {"b": "2"}),
        ("Which?", {"b": "2", "up": "down"}),
    ]


CASE = {"rows": 2, "inner": 3, "columns": 5}
JUDGE = EqualTo(lambda rows, inner, columns: {"forward_flops": 60, "backward_flops": 120})


def numbers_of(*pieces, shows=()):
    mistake, *_ = edited(EXERCISE, [Edit("Why?", dict(pieces), shows=shows)])
    return mistake.numbers(CASE, JUDGE)


def test_an_edited_answer_is_known_by_the_numbers_that_it_gets_wrong():
    assert numbers_of(("2 * one_product", "one_product")) == {"backward_flops": 60}
    assert numbers_of((FORWARD, "rows")) == {"forward_flops": 2, "backward_flops": 4}
    assert numbers_of((FORWARD, "rows"), shows=("forward_flops",)) == {"forward_flops": 2}


def test_an_edit_that_raises_is_known_by_nothing():
    assert numbers_of((FORWARD, "1 // 0")) == {}
    assert numbers_of((FORWARD, "'words'")) == {}


def test_each_case_runs_an_edit_once(monkeypatch):
    mistake, *_ = edited(EXERCISE, [Edit("Why?", {FORWARD: "rows"})])
    first = mistake.numbers(CASE, JUDGE)
    monkeypatch.setattr(model_answers, "observe_within_limits", None)
    assert mistake.numbers(CASE, JUDGE) == first


def test_a_generated_mistake_without_end_is_not_tried_again(monkeypatch):
    monkeypatch.setattr(model_answers, "GENERATED_SECONDS", 0.05)
    source = (
        "def matmul_flops(rows, inner, columns):\n    while inner == 3:\n        pass\n    return 7"
    )
    mistake = ChangedAnswer(EXERCISE, "Why?", source, is_generated=True)
    judge = EqualTo(lambda rows, inner, columns: 60)
    assert mistake.numbers(CASE | {"inner": 4}, judge) == {ONLY: 7}
    assert mistake.numbers(CASE, judge) == {}
    monkeypatch.setattr(model_answers, "observe_within_limits", None)
    assert mistake.numbers(CASE | {"inner": 5}, judge) == {}
    assert mistake.endless == [CASE]
