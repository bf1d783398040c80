"""No mutant of a sample earns points."""

import random

from autograder.checking.seeds import PRACTICE_SEEDS
from autograder.exercises.model_answers import answer_of
from tests.benchmarks.mutants import drawn, exercises_of, verdict_on

NUM_EXERCISES = 40
RIGHT = {"u14-plan": "mine = -(-num_sequences // data)"}
"""Changes that change nothing: this one rounds up what was tested to leave no remainder."""


def test_no_mutant_of_a_sample_passes_practice():
    sample = random.Random(0).sample(exercises_of([]), NUM_EXERCISES)
    passed = []
    for exercise in sample:
        (mutant,) = drawn(exercise, 1)
        verdict = verdict_on(exercise, answer_of(exercise, mutant.source), PRACTICE_SEEDS)
        is_right = exercise in RIGHT and RIGHT[exercise] in mutant.source
        if verdict.passed and not is_right:
            passed.append((exercise, mutant.source))
    assert not passed, "a check lacks a case, or these are right answers, which RIGHT would name"
