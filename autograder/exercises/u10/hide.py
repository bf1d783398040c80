"""Check of the fewest tokens whose product hides a gather, against a search on the two times."""

import math
import random
from collections.abc import Callable
from fractions import Fraction

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.checking.mistakes import Numbers, Symptom
from autograder.exercises.model_answers import mistakes_of

FIELDS = ("num_weights", "num_ranks", "bytes_per_second", "latency_ns", "flops_per_second")


def hide_cases(seed: int) -> list[Case]:
    """One rank and many, no latency and much; every third result is a whole number.

    Pairs are so nearly alike that a float cannot tell one from the other.
    """
    rng = random.Random(seed)
    cases: list[tuple[int, ...]] = [
        (1024, 4, 64, 2 * 10**9, 1024),
        (4096**2, 8, 200 * 10**9, rng.randint(5_000, 20_000), 400 * 10**12),
    ]
    for number in range(21):
        ranks = rng.choice((2, 3, 4, 5, 6, 7, 8, 12))
        width = 8 * rng.randint(20, 600)
        latency = (0, rng.randint(1_000, 50_000), 10**6)[number % 3 and rng.randint(1, 2)]
        rate, flops = rng.randint(10, 400) * 10**9 + 7, rng.randint(100, 900) * 10**12 + 1
        if number % 3 == 0:  # powers of two come out even
            ranks, rate = 2 ** rng.randint(1, 4), 2 ** rng.randint(34, 38)
            flops = rate * 2 ** rng.randint(8, 11)
        cases.append((width**2, ranks, rate, latency, flops))
    cases.append((rng.randint(100, 999) ** 2, 1, 10**9, 10_000, 10**14))
    cases += [case for _ in range(3) for case in _alike_in_floats(rng)]
    return [dict(zip(FIELDS, each, strict=True)) for each in cases]


def _alike_in_floats(rng: random.Random) -> list[tuple[int, ...]]:
    """Two rates beyond 2**56 that are one number in floats; one of them needs a token more."""
    rate, tokens = rng.randint(19 * 10**10, 21 * 10**10), 4 * rng.randint(2**16, 2**17)
    num_weights, flops = (8 * rng.randint(20, 600)) ** 2, 2 * rate * tokens
    return [(num_weights, 2, rate, 0, each) for each in (flops, flops + 1)]


def searched(
    num_weights: int,
    num_ranks: int,
    bytes_per_second: int,
    latency_ns: int,
    flops_per_second: int,
) -> int:
    """The fewest tokens by bisection on the two times, in fractions, without their formula."""
    part = Fraction(2 * num_weights, num_ranks)
    turn = Fraction(latency_ns, 10**9) + part / bytes_per_second
    gather = sum((turn for _ in range(num_ranks - 1)), Fraction())

    def is_hidden(tokens: int) -> bool:
        return Fraction(2 * num_weights * tokens, flops_per_second) >= gather

    low, high = 0, 1
    while not is_hidden(high):
        low, high = high, 2 * high
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if is_hidden(middle) else (middle + 1, high)
    return low


MISSED = (
    "Off by one token where the two times are (nearly) equal. What does a float make of "
    "a third, and which whole numbers could you compare instead?"
)


def _missed(by: int) -> Callable[..., Numbers | int]:
    """What a float gives that is off by so many tokens, where it may be: (nearly) whole ones."""

    def numbers(
        num_weights: int, num_ranks: int, bytes_per_second: int, latency_ns: int, flops: int
    ) -> Numbers | int:
        passing = Fraction(2 * num_weights, num_ranks * bytes_per_second)
        gather = (num_ranks - 1) * (Fraction(latency_ns, 10**9) + passing)
        exact = gather * flops / (2 * num_weights)
        is_near = abs(exact - round(exact)) < round(exact) * Fraction(1, 10**12)
        return math.ceil(exact) + by if is_near and num_ranks > 1 else {}

    return numbers


CHECK = Check(
    cases=hide_cases,
    judge=EqualTo(
        searched,
        *mistakes_of("u10-hide"),
        Symptom(MISSED, _missed(1)),
        Symptom(MISSED, _missed(-1)),
    ),
    fallback="course_utils.formulas.sharding.gather_hiding_tokens",
)
