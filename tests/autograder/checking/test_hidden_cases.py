"""A grade draws no case that students have, and every place of its list keeps its kind."""

import random

import pytest
import torch

from autograder.checking.exercise_check import Check
from autograder.checking.hidden_cases import MAX_TRIES, hidden_cases
from autograder.checking.judges import ValueJudge
from autograder.checking.seeds import KNOWN_SEEDS

SEEDS = range(100, 150)


def check(cases):
    return Check(cases=cases, judge=ValueJudge(lambda **case: 0))


def of_two_kinds(seed):
    """The worked case, an even number and an odd one, of few."""
    rng = random.Random(seed)
    return [{"n": 0}, {"n": 2 * rng.randint(1, 5)}, {"n": 2 * rng.randint(1, 5) + 1}]


def of_tensors(seed):
    worked, other = torch.zeros(2), torch.tensor([seed % 3, 1])
    return [{"x": worked, "n": 1}, {"x": other, "n": 1}]


KNOWN = [case for seed in KNOWN_SEEDS for case in of_two_kinds(seed)]


@pytest.mark.parametrize("seed", [*KNOWN_SEEDS, *SEEDS])
def test_what_students_have_is_replaced_by_its_like(seed):
    worked, even, odd = hidden_cases(check(of_two_kinds), seed)
    assert worked == {"n": 0}
    assert (even["n"] % 2, odd["n"] % 2) == (0, 1)
    assert even not in KNOWN
    assert odd not in KNOWN


def test_what_nobody_has_stays():
    kept = [seed for seed in SEEDS if not any(case in KNOWN for case in of_two_kinds(seed)[1:])]
    assert kept
    assert all(hidden_cases(check(of_two_kinds), s) == of_two_kinds(s) for s in kept)


def test_cases_are_told_apart_by_what_their_tensors_hold():
    """Both practice seeds leave one when they are divided by three."""
    numbers = {int(hidden_cases(check(of_tensors), seed)[1]["x"][0]) for seed in SEEDS}
    assert numbers == {0, 2}


def test_a_kind_of_which_students_have_all_cases_keeps_one_after_some_tries():
    asked = []

    def of_one(seed):
        asked.append(seed)
        return [{"n": 0}, {"n": 1}]

    assert hidden_cases(check(of_one), 100) == [{"n": 0}, {"n": 1}]
    assert len(asked) == len(KNOWN_SEEDS) + 1 + MAX_TRIES
