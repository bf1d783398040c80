"""No exercise gives points to a table of the cases that students have with what is right."""

import dataclasses
import hashlib
import os
import subprocess
import sys

import pytest

from autograder import catalogue
from autograder.checking.case_objects import arguments
from autograder.checking.lookup import check_of, graded_check_of, practice_check_of
from autograder.checking.plain_data import pack
from autograder.checking.scoring import score_answer
from autograder.checking.seeds import AGAIN_SEEDS, PRACTICE_SEEDS, seeds_from
from autograder.exercises.model_answers import model_answer

EXERCISES = [item.id for unit in catalogue.units() for item in unit.exercises if not item.manual]
FORMULAS = [exercise for exercise in EXERCISES if check_of(exercise).is_formula]
NUM_PAIRS = 200 if os.environ.get("ALL_SEEDS") else 10
GRADES = [seeds_from(f"class {number}") for number in range(NUM_PAIRS)]

# Kinds that have too few cases, by exercise: how many cases of a seed students have, at most. A
# table of them earns nothing in these exercises, too: each part has other cases.
TOO_FEW = {
    "u07-stochastic": 1,  # zero
    "u09-ring": 5,  # fewer numbers than three or four ranks
}

SEED = 2**50 + 1
HASHES = f"""
import hashlib, sys
from autograder.checking.lookup import graded_check_of
from autograder.checking.plain_data import pack
for exercise in sys.argv[1:]:
    cases = pack(graded_check_of(exercise).cases({SEED}))
    print(hashlib.sha256(repr(cases).encode()).hexdigest())
"""


def students_cases(exercise):
    """All cases whose right answers are in students' packs."""
    first, again = practice_check_of(exercise), practice_check_of(exercise, again=True)
    return [*first.cases(*PRACTICE_SEEDS), *again.cases(*AGAIN_SEEDS)]


@pytest.mark.parametrize("exercise", EXERCISES)
def test_students_have_no_case_of_a_grade_but_the_worked_one(exercise):
    """So each scenario has cases in which a table fails, whatever it makes an observer see."""
    known, check = set(map(pack, students_cases(exercise))), graded_check_of(exercise)
    scenarios = set(getattr(check.judge, "scenarios", ()))
    for seeds in GRADES:
        drawn = [check.cases(seed) for seed in seeds]
        told = [case for _, *others in drawn for case in others if pack(case) in known]
        assert len(told) <= len(seeds) * TOO_FEW.get(exercise, 0), (seeds, told)
        new = [case for cases in drawn for case in cases if pack(case) not in known]
        assert len(new) >= 20
        assert {case["scenario"] for case in new if scenarios} == scenarios


def table_of(exercise):
    """An answer that looks up what is right of the cases that students have."""
    right, check = model_answer(exercise), check_of(exercise)
    rows = {
        repr(list(arguments(case).values())): check.observe(right, case)
        for case in students_cases(exercise)
    }
    return lambda *sizes: rows.get(repr(list(sizes)))


def measured_by_the_model_answer(check, right):
    """For speed: other tests compare it with what is measured."""
    if check.judge.together:
        return check
    judge = type(check.judge)(lambda **case: check.observe(right, case))
    return dataclasses.replace(check, judge=judge)


@pytest.mark.parametrize("exercise", FORMULAS)
def test_a_table_of_what_students_have_passes_practice_alone(exercise):
    """Of what only returns a value; an implementation is observed while it computes one."""
    table, right = table_of(exercise), model_answer(exercise)
    check = measured_by_the_model_answer(check_of(exercise), right)
    graded = measured_by_the_model_answer(graded_check_of(exercise), right)
    points = [
        score_answer(*each).verdict(exercise, 2.0, tell_all=True).points
        for each in ((check, table, PRACTICE_SEEDS), (graded, table, GRADES[0]))
    ]
    assert points == [2.0, 0.0]


def test_another_process_draws_the_same_cases():
    command = [sys.executable, "-c", HASHES, *EXERCISES]
    other = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    cases = (graded_check_of(exercise).cases(SEED) for exercise in EXERCISES)
    assert other == [hashlib.sha256(repr(pack(each)).encode()).hexdigest() for each in cases]
