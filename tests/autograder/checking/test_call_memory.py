"""What an answer keeps between calls is found, and forgotten for a while."""

import pytest

from autograder.checking.call_memory import CallMemory
from autograder.checking.exercise_check import Check
from autograder.checking.hint_choice import PENCIL, REMEMBERS, TWO_ANSWERS
from autograder.checking.judges import ValueJudge
from autograder.checking.scoring import score_answer
from tests.answer_bank import make

CASES = [{"rows": rows, "columns": columns} for rows in (2, 3, 5) for columns in (4, 7, 11, 13)]
CHECK = Check(
    cases=lambda seed: CASES,
    judge=ValueJudge(lambda rows, columns: rows * columns + columns**2 % 5),
)
RIGHT = "rows * columns + columns**2 % 5"

KEEPING = {
    "a cache that looks at one size": f"""
        seen = {{}}
        def area(rows, columns):
            if rows not in seen:
                seen[rows] = {RIGHT}
            return seen[rows]
        """,
    "a list as default argument": f"""
        def area(rows, columns, parts=[]):
            parts.append({RIGHT})
            return sum(parts)
        """,
    "a global total": f"""
        total = 0
        def area(rows, columns):
            global total
            total += {RIGHT}
            return total
        """,
    "an attribute of the function": f"""
        def area(rows, columns):
            area.total += {RIGHT}
            return area.total
        area.total = 0
        """,
    "a nonlocal name": f"""
        def make():
            total = 0
            def area(rows, columns):
                nonlocal total
                total += {RIGHT}
                return total
            return area
        area = make()
        """,
    "an attribute of a class": f"""
        class Areas:
            parts = []
            total = 0
            def add(self, number):
                self.parts.append(number)
                Areas.total += number
                return sum(self.parts)
        def area(rows, columns):
            return Areas().add({RIGHT})
        """,
    "an instance": f"""
        class Areas:
            def __init__(self):
                self.total = 0
        areas = Areas()
        def area(rows, columns):
            areas.total += {RIGHT}
            return areas.total
        """,
    "a cache of a helper": f"""
        from functools import cache
        sizes = {{}}
        @cache
        def helper(rows):
            columns = sizes["columns"]
            return {RIGHT}
        def area(rows, columns):
            sizes["columns"] = columns
            return helper(rows)
        """,
    "a list that runs over": f"""
        calls = []
        def area(rows, columns):
            calls.append(rows)
            return {RIGHT} if [0, 0, 0][len(calls) - 1] == 0 else None
        """,
}

TOTALS = ("a global total", "an attribute of the function", "a nonlocal name", "an instance")


def hint_of(answer):
    result = score_answer(CHECK, answer, [1])
    return result.verdict("u01-matmul-flops", 1.0, tell_all=True).hint


@pytest.mark.parametrize("source", KEEPING.values(), ids=KEEPING)
def test_what_calls_leave_is_told_each_time(source):
    area = make(source, "area")
    assert [hint_of(area), hint_of(area)] == [REMEMBERS, REMEMBERS]


@pytest.mark.parametrize("name", KEEPING)
def test_what_a_call_before_the_check_has_left_is_told_too(name):
    """Nobody can tell from which number on a total counts: it differs from call to call."""
    area = make(KEEPING[name], "area")
    area(2, 4)
    assert hint_of(area) == (TWO_ANSWERS if name in TOTALS else REMEMBERS)


def test_another_answer_each_time_is_told():
    source = "import random\ndef area(rows, columns):\n    return random.random()"
    assert hint_of(make(source, "area")) == TWO_ANSWERS


@pytest.mark.parametrize(
    "source",
    [
        "def area(rows, columns):\n    return rows**2 - columns * 3 % 7 + 900 // (rows + columns)",
        """
        seen = {}
        def area(rows, columns):
            if (rows, columns) not in seen:
                seen[rows, columns] = rows**2 - columns * 3 % 7 + 900 // (rows + columns)
            return seen[rows, columns]
        """,
    ],
)
def test_an_answer_that_is_wrong_by_itself_is_not_said_to_remember(source):
    assert hint_of(make(source, "area")) == PENCIL


def test_afterwards_all_is_as_it_was():
    source = """
        from collections import Counter, deque
        table, total, last, counts = {"fp32": 4}, 7, deque([1]), Counter("ab")
        def area(rows, columns, parts=[1, {2}]):
            global total
            total += 1
            table.pop("fp32", None)
            last.append(rows)
            counts.update("b")
            parts[1].add(rows)
        """
    area = make(source, "area")
    space, memory = area.__globals__, CallMemory(area)
    area(3, 4)
    with memory.forgotten():
        assert (space["table"], space["total"], [*space["last"]]) == ({"fp32": 4}, 7, [])
        area(5, 6)
    assert (space["table"], space["total"], [*space["last"]]) == ({"fp32": 4}, 7, [1])
    assert (area.__defaults__, dict(space["counts"])) == (([1, {2}],), {"a": 1, "b": 1})


def test_what_the_answer_does_not_read_is_left_alone():
    source = "others = []\ndef area(rows, columns):\n    return rows"
    area = make(source, "area")
    memory = CallMemory(area)
    area.__globals__["others"].append(1)
    with memory.forgotten():
        assert area.__globals__["others"] == [1]


def test_an_object_that_does_not_want_to_be_looked_at_is_left_alone():
    source = """
        class Odd:
            def __getattribute__(self, name):
                raise RuntimeError(name)
        odd = Odd()
        def area(rows, columns):
            return odd
        """
    with CallMemory(make(source, "area")).forgotten():
        pass
