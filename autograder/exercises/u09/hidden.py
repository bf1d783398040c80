"""Check of the fewest tokens on a rank with which an all-reduce hides behind backward."""

import math
import random
from fractions import Fraction
from typing import Any

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.checking.mistakes import Symptom
from autograder.exercises.model_answers import mistakes_of

FIELDS = ("num_params", "num_ranks", "bytes_per_element", "bytes_per_second", "flops_per_second")


def hidden_cases(seed: int) -> list[Case]:
    """One rank and many, slow and fast links; every third result is a whole number.

    Some are so nearly whole that a float cannot tell; some rings move a fraction of a byte.
    """
    rng = random.Random(seed)
    cases = [_case(1024, 4, 2, 64, 512), _case(64 * rng.randint(16, 99), 1, 2, 64, 512)]
    num_params = rng.randint(1, 99) * 10**9
    cases.append(_case(num_params, 2, 2, 25 * 10**9, 312 * 10**12))  # 6,240: a float may miss it
    for number in range(20):
        num_params = rng.randint(2, 90) * 10**6 + rng.randint(1, 999)
        if number % 3 == 0:  # powers of two
            ranks, rate = 2 ** rng.randint(1, 5), 2 ** rng.randint(20, 24)
            cases.append(_case(num_params, ranks, 2 * rng.randint(1, 2), rate, rate * 2**9))
            continue
        ranks = rng.choice((3, 5, 6, 7, 11, 12))
        rate, flops = rng.randint(20, 400) * 10**6 + 7, rng.randint(100, 900) * 10**9 + 1
        cases.append(_case(num_params, ranks, rng.choice((2, 4)), rate, flops))
    cases += [_nearly_even(rng, side) for side in (1, -1, 1, -1)]
    return cases + [_few_params(rng) for _ in range(2)]


def _nearly_even(rng: random.Random, side: int) -> Case:
    """Tokens above or below a whole number by about one part in 10**16."""
    ranks = 2 ** rng.randint(9, 11)
    tokens = rng.choice([n for n in range(150, 256) if math.gcd(n, ranks - 1) == 1])
    rate = rng.randint(19 * 10**10, 21 * 10**10)
    rate += (-side * pow(tokens, -1, ranks - 1) - rate) % (ranks - 1)
    flops, remainder = divmod(ranks * rate * tokens + side, ranks - 1)
    assert remainder == 0
    return _case(rng.randint(2, 90) * 10**6, ranks, 2, rate, flops)


def _few_params(rng: random.Random) -> Case:
    """No rank holds a whole number of bytes; computing a token is quicker than sending a byte."""
    rate = rng.randint(10, 99)
    return _case(rng.choice((1, 2, 4)), rng.choice((3, 7, 11)), 2, rate, rate * 10**6 + 1)


def _case(*values: int) -> Case:
    return dict(zip(FIELDS, values, strict=True))


def searched(
    num_params: int,
    num_ranks: int,
    bytes_per_element: int,
    bytes_per_second: int,
    flops_per_second: int,
) -> int:
    """The fewest tokens by bisection on the two times, in fractions, without their formula."""
    part = Fraction(num_params * bytes_per_element, num_ranks)  # bytes of one part of the ring
    all_reduce = 2 * (num_ranks - 1) * part / bytes_per_second

    def is_hidden(tokens: int) -> bool:
        return Fraction(2 * 2 * num_params * tokens, flops_per_second) >= all_reduce

    low, high = 0, 1
    while not is_hidden(high):
        low, high = high, 2 * high
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if is_hidden(middle) else (middle + 1, high)
    return low


def _exact(
    num_params: int,
    num_ranks: int,
    bytes_per_element: int,
    bytes_per_second: int,
    flops_per_second: int,
) -> Fraction:
    dividend = bytes_per_element * (num_ranks - 1) * flops_per_second
    return Fraction(dividend, 2 * num_ranks * bytes_per_second)


def _can_be_missed(*values: int) -> bool:
    """Whether a float may miss it: (nearly) whole, and the rate is not a power of two."""
    exact, rate = _exact(*values), values[3]
    is_near = abs(exact - round(exact)) < round(exact) * Fraction(1, 10**12)
    return is_near and rate & (rate - 1) != 0


def _missed(by: int) -> Any:
    return lambda *values: math.ceil(_exact(*values)) + by if _can_be_missed(*values) else {}


MISSED = (
    "Off by one token where the two times are (nearly) equal. What does a float make of "
    "a third, and which whole numbers could you compare instead?"
)

CHECK = Check(
    cases=hidden_cases,
    judge=EqualTo(
        searched,
        *mistakes_of("u09-hidden"),
        Symptom(MISSED, _missed(1)),
        Symptom(MISSED, _missed(-1)),
    ),
    fallback="course_utils.formulas.communication.min_hiding_tokens",
)
