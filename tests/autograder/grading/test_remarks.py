"""Unusual names in a student's code are reported; usual code is not."""

import signal

import pytest
from nbformat.v4 import new_code_cell

from autograder.cells import cell_key, is_solution
from autograder.checking.error_hints import sentence_and_hint
from autograder.checking.verdict import Verdict
from autograder.grading.remarks import for_a_person, on_unusual_code
from autograder.grading.sandbox import audit_hook
from autograder.student.merge_answers import merge_answers
from tests.notebooks.filling import UNITS, answer_banks_of, filled, released, solved

UNIT = UNITS[0]


def remarks_on(unit, answers, *added):
    release = released(unit)
    notebook = merge_answers(filled(unit, answers), release)
    notebook.cells += [new_code_cell(source) for source in added]
    return list(on_unusual_code(notebook, release))


def a_solution():
    return next(cell_key(cell) for cell in released(UNIT).cells if is_solution(cell))


@pytest.mark.parametrize("unit", UNITS)
def test_solutions_are_usual(unit):
    assert remarks_on(unit, solved(unit)) == []


@pytest.mark.parametrize("unit", UNITS)
def test_right_answers_in_another_style_are_usual(unit):
    for name, bank in answer_banks_of(unit).items():
        for right in bank.right:
            assert remarks_on(unit, {name: right}) == [], name


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("import ctypes", "ctypes"),
        ("f.__code__ = g.__code__", "__code__"),
        ("x = eval('1')", "eval"),
        ("getattr(torch, 'mat' + 'mul')(a, b); getattr(torch, name)", "getattr"),
        ("import os; os.kill(1, 9)", "os.kill"),
        ("from course_utils.formulas import flops", "course_utils.formulas"),
        ("model.num_calls = 0", ".num_calls"),
    ],
)
def test_what_no_exercise_needs_is_named(source, words):
    name = a_solution()
    assert remarks_on(UNIT, {name: source}) == [f"{name} uses {words}, which no exercise needs."]


@pytest.mark.parametrize("source", ["model.eval()", "os.path.join('a', 'b')", "evaluate(x)"])
def test_words_that_only_resemble_are_usual(source):
    assert remarks_on(UNIT, {a_solution(): source}) == []


def test_an_added_cell_is_named_by_its_beginning():
    assert remarks_on(UNIT, {}, "\n\n  import socket\nsocket.socket()") == [
        "An added cell ('import socket') uses socket, which no exercise needs."
    ]


def test_alarms_and_tampering_are_for_a_person():
    told = {"trouble": "tampered", "what": "autograder.checking.bounded_call.observe_within_limits"}
    sentence, _ = sentence_and_hint(told)
    tampered = Verdict(exercise="u00-x", points=0.0, max_points=1.0, sentence=sentence)
    honest = Verdict(exercise="u00-y", points=0.0, max_points=1.0, sentence="It returned None.")
    told = list(for_a_person([tampered, honest], [0, audit_hook.EXIT_CODE, -signal.SIGSYS]))
    assert told[0] == f"u00-x: {sentence}"
    assert [line.endswith("which ended its process.") for line in told] == [False, True, True]
    assert list(for_a_person([honest], [0, 1, -9])) == []
