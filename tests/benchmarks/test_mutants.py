"""No mutant of a sample earns points, and small changes are what they say."""

import random

from autograder.checking.seeds import PRACTICE_SEEDS
from autograder.exercises.model_answers import answer_of, model_source
from tests.benchmarks.mutants import drawn, exercises_of, verdict_on
from tests.benchmarks.small_changes import small_changes

NUM_EXERCISES = 40


def test_no_mutant_of_a_sample_passes_practice():
    sample = random.Random(0).sample(exercises_of([]), NUM_EXERCISES)
    passed = []
    for exercise in sample:
        (mutant,) = drawn(exercise, 1)
        if verdict_on(exercise, answer_of(exercise, mutant.source), PRACTICE_SEEDS).passed:
            passed.append((exercise, mutant.source))
    assert not passed, "a check lacks a case, or these are right answers, too"


def test_a_mutant_is_the_same_every_time():
    (exercise, *_) = exercises_of([])
    assert [*drawn(exercise, 6)] == [*drawn(exercise, 6)]


def test_mutants_differ_from_the_answer_and_from_one_another():
    for exercise in exercises_of([]):
        sources = [each.source for each in small_changes(model_source(exercise))]
        assert len({model_source(exercise), *sources}) == len(sources) + 1


def test_operands_of_a_sum_or_a_product_are_not_exchanged():
    sources = [each.source for each in small_changes("a = b * c + d")]
    assert "a = c * b + d" not in sources
    assert "a = b * d + c" in sources
