"""Check of the experts that a batch reads, against the law of their number."""

import random
from math import comb

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.checking.precision import PROMISED
from autograder.exercises.model_answers import mistakes_of

NAMES = ("num_experts", "experts_per_token", "num_tokens")


def batch_cases(seed: int) -> list[Case]:
    """One token and many, one expert for each and several, all experts, few and hundreds."""
    rng = random.Random(seed)
    few, many = rng.randint(3, 9), rng.randint(20, 40)
    sizes = [(8, 2, 1), (8 + few, 2, 2), (256, 8, many), (many, 1, few), (few, few, many)]
    sizes += [(2 * few, few, 2), (many, 6, 1), (few, 1, many)]
    while len(sizes) < 22:
        experts = rng.randint(5, 60)
        sizes.append((experts, rng.randint(2, min(6, experts - 1)), rng.randint(2, 25)))
    return [dict(zip(NAMES, each, strict=True)) for each in sizes]


def mean_of_the_law(num_experts: int, experts_per_token: int, num_tokens: int) -> float:
    """The mean of how many experts are reached, followed token by token."""
    law = {0: 1.0}
    ways = comb(num_experts, experts_per_token)
    for _ in range(num_tokens):
        following: dict[int, float] = {}
        for reached, chance in law.items():
            for new in range(min(experts_per_token, num_experts - reached) + 1):
                old = experts_per_token - new
                share = comb(num_experts - reached, new) * comb(reached, old) / ways
                if share:
                    total = reached + new
                    following[total] = following.get(total, 0.0) + chance * share
        law = following
    return sum(reached * chance for reached, chance in law.items())


CHECK = Check(
    cases=batch_cases,
    judge=EqualTo(mean_of_the_law, *mistakes_of("u13-touched"), relative_tolerance=PROMISED),
    fallback="course_utils.formulas.serving.expected_experts",
)
