"""No mutant of a sample earns points."""

import random

from autograder.checking.seeds import PRACTICE_SEEDS
from autograder.exercises.model_answers import answer_of
from tests.benchmarks.mutants import drawn, exercises_of, verdict_on

NUM_EXERCISES = 40
RIGHT = {("u14-plan", "direction")}
"""Mutants that change nothing: this one rounds up what was tested to leave no remainder."""


def test_no_mutant_of_a_sample_passes_practice():
    sample = random.Random(0).sample(exercises_of([]), NUM_EXERCISES)
    passed = []
    for exercise in sample:
        (mutant,) = drawn(exercise, 1)
        verdict = verdict_on(exercise, answer_of(exercise, mutant.source), PRACTICE_SEEDS)
        if verdict.passed and (exercise, mutant.kind) not in RIGHT:
            passed.append((exercise, mutant.source))
    assert not passed, "a check lacks a case, or these are right answers, which RIGHT would name"
