"""What the ledger says of every answer, and whether answers are told so.

A tenth of the rows is tried, others whenever what is recorded of the exercise changes, and always
the model answer; with `ALL_ANSWERS=1` in the environment all of them.
"""

import pytest

from autograder import catalogue
from autograder.checking.lookup import check_of
from autograder.exercises.model_answers import ChangedAnswer
from tests import ledger
from tests.answer_bank.every import ANSWER_BANKS
from tests.sampling import ALL, is_chosen

SHARE = 1 if ALL else 10  # one of so many rows
ROWS = {
    exercise: {
        row.tree: row for row in ledger.read(ledger.table_of(exercise)) if row.exercise == exercise
    }
    for exercise in filter(ledger.in_ledger, ANSWER_BANKS)
}


def test_tables_are_of_exercises_that_there_are():
    rows = [row for path in ledger.TABLES.glob("*.tsv") for row in ledger.read(path)]
    assert {row.exercise for row in rows} <= ANSWER_BANKS.keys()


@pytest.mark.parametrize("exercise", ROWS)
def test_every_answer_has_its_row_and_every_row_its_answer(exercise):
    rows = [row for row in ledger.read(ledger.table_of(exercise)) if row.exercise == exercise]
    trees = sorted(each.tree for each in ledger.answers(exercise))
    assert sorted(row.tree for row in rows) == trees


@pytest.mark.parametrize("exercise", ROWS)
def test_edits_lose_their_points_and_trigger_their_hints(exercise):
    """In practice and when graded."""
    rows = ROWS[exercise]
    for each in check_of(exercise).judge.mistakes:
        if isinstance(each, ChangedAnswer) and not each.is_generated:
            row = rows[ledger.tree_of(each.source)]
            assert (row.hint, row.graded_hint) == (each.hint, ledger.SAME)
            assert float(row.points) == float(row.graded_points) == each.points


@pytest.mark.parametrize("exercise", ROWS)
def test_wrong_answers_lose_their_points_and_trigger_their_hints(exercise):
    rows = ROWS[exercise]
    for each in ANSWER_BANKS[exercise].wrong:
        row = rows[ledger.tree_of(each.source)]
        assert each.hint in row.hint
        assert row.hint.endswith("?")
        assert row.graded_hint == ledger.SAME
        assert float(row.points) == float(row.graded_points) == each.points


@pytest.mark.parametrize("exercise", ROWS)
def test_right_answers_earn_full_marks(exercise):
    most, rows = catalogue.exercise(exercise).points, ROWS[exercise]
    right = [rows[ledger.tree_of(source)] for source in ANSWER_BANKS[exercise].right]
    for row in (*right, *(row for row in rows.values() if row.answer == "model")):
        assert (float(row.points), float(row.graded_points)) == (most, most)
        assert (row.hint, row.graded_hint) == ("", ledger.SAME)


@pytest.mark.parametrize("exercise", ROWS)
def test_answers_are_told_what_the_ledger_says(exercise):
    chosen = [
        each
        for each in ledger.answers(exercise)
        if each.name == "model" or is_chosen(exercise, each.tree, SHARE)
    ]
    told = [ledger.row_of(each) for each in chosen]
    assert [
        differing for row in told if (differing := difference(row, ROWS[exercise][row.tree]))
    ] == []


def difference(now, then):
    """What is said now and was said then of the same answer, where they differ."""
    names = ("points", "hint", "graded_points", "graded_hint")
    new, old = ([getattr(row, name) for name in names] for row in (now, then))
    return None if new == old else (now.exercise, now.answer, new, old)
