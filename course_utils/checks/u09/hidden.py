"""Check of the fewest tokens on a rank with which an all-reduce hides behind backward."""

import math
import random
from fractions import Fraction
from typing import Any

from course_utils.checks.check import Case, Check
from course_utils.checks.judges import EqualTo, Mistake
from course_utils.formulas.communication import min_hiding_tokens

FIELDS = ("num_params", "num_ranks", "bytes_per_element", "bytes_per_second", "flops_per_second")


def hidden_cases(seed: int) -> list[Case]:
    """One rank and many, slow and fast links; every third result comes out even."""
    rng = random.Random(seed)
    cases = [_case(1024, 4, 2, 64, 512), _case(4096, 1, 2, 64, 512)]
    cases.append(_case(10**9, 2, 2, 25 * 10**9, 312 * 10**12))  # 6,240: a float may miss it
    for number in range(20):
        num_params = rng.randint(2, 90) * 10**6 + rng.randint(1, 999)
        if number % 3 == 0:  # powers of two
            ranks, rate = 2 ** rng.randint(1, 5), 2 ** rng.randint(20, 24)
            cases.append(_case(num_params, ranks, 2 * rng.randint(1, 2), rate, rate * 2**9))
            continue
        ranks = rng.choice((3, 5, 6, 7, 11, 12))
        rate, flops = rng.randint(20, 400) * 10**6 + 7, rng.randint(100, 900) * 10**9 + 1
        cases.append(_case(num_params, ranks, rng.choice((2, 4)), rate, flops))
    return cases


def _case(*values: int) -> Case:
    return dict(zip(FIELDS, values, strict=True))


def searched(
    num_params: int,
    num_ranks: int,
    bytes_per_element: int,
    bytes_per_second: int,
    flops_per_second: int,
) -> int:
    """By bisection on the two times, in fractions and without a formula for the tokens."""
    part = Fraction(num_params * bytes_per_element, num_ranks)  # of the ring's pieces
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


def _up(value: Fraction) -> int:
    return -(-value.numerator // value.denominator)


def _without_ranks(*values: int) -> int:
    """If every rank sent all bytes twice, however many there are."""
    _, _, bytes_per_element, bytes_per_second, flops_per_second = values
    return _up(Fraction(bytes_per_element * flops_per_second, 2 * bytes_per_second))


def _in_floats(*values: int) -> int:
    """The quotient of the two times, rounded on the way."""
    num_params, d, num_bytes, rate, flops = values
    return math.ceil((2 * (d - 1) / d * num_params * num_bytes / rate) / (4 * num_params / flops))


def _times(factor: Fraction | int) -> Any:
    return lambda *values: _up(_exact(*values) * factor)


MIN_TOKENS = Check(
    cases=hidden_cases,
    reference=min_hiding_tokens,
    judge=EqualTo(
        searched,
        Mistake(
            "You multiply by the number of parameters. Which of the two times grows with it, and "
            "which does not?",
            lambda *values: _up(_exact(*values) * values[0]),
        ),
        Mistake(
            "Your number falls with the number of parameters. Which of the two times grows with "
            "it, and which does not?",
            lambda *values: _up(_exact(*values) / values[0]),
        ),
        Mistake(
            "Half of what a ring moves: that is a reduce-scatter alone. What follows it in an "
            "all-reduce?",
            _times(Fraction(1, 2)),
        ),
        Mistake(
            "You hide communication behind the forward pass, too, or behind that alone. When is "
            "the first gradient there, and how many FLOPs has a token from then on?",
            _times(Fraction(2, 3)),
        ),
        Mistake(
            "Eight times as many. Do the links' rates on the card count bytes or bits?",
            _times(8),
        ),
        Mistake(
            "Twice as many. How many products does backward make for each weight and token?",
            _times(2),
        ),
        Mistake(
            "Every rank sends all bytes twice in your ring. Which part does it have already?",
            _without_ranks,
        ),
        Mistake(
            "Elements are counted where bytes travel. How many bytes has each?",
            lambda *values: _up(_exact(*values) / values[2]),
        ),
        Mistake(
            "These are the tokens of all ranks together. How many does the card ask for?",
            lambda *values: _up(_exact(*values) * values[1]),
        ),
        Mistake(
            "One token too few wherever it does not come out even. To which side do you round, if "
            "backward has to be at least as long?",
            lambda *values: _exact(*values) // 1,
        ),
        Mistake(
            "On one rank nothing travels. How many tokens hide nothing?",
            lambda *values: max(1, _up(_exact(*values))),
        ),
        Mistake(
            "Right, but for one token in a case where the two times are equal. What does a float "
            "make of a third, and which whole numbers could you compare instead?",
            _in_floats,
        ),
        Mistake(
            "One token too many wherever it comes out even. May the two times be equal?",
            lambda *values: _exact(*values) // 1 + 1,
        ),
    ),
)
