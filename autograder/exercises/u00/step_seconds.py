"""Check of the seconds of a training step."""

import random
from fractions import Fraction

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import NINE_DIGITS, EqualTo, Mistake
from course_utils.formulas.step_time import step_seconds


def step_cases(seed: int) -> list[Case]:
    """One sequence and many, odd lengths, rates from a laptop's to a large cluster's."""
    rng = random.Random(seed)
    first: Case = {
        "num_sequences": 4,
        "seq_len": 1000,
        "flops_per_token": 6 * 10**9,
        "flops_per_second": 10**14,
    }
    return [first] + [
        {
            "num_sequences": num_sequences,
            "seq_len": rng.randrange(129, 8193, 2),
            "flops_per_token": rng.randint(10**8, 10**12),
            "flops_per_second": rng.randint(10**digits // 10, 10**digits),
        }
        for num_sequences in (1, 1, rng.randint(2, 64), rng.randint(65, 4096))
        for digits in (11, 13, 15, 17, 19)
    ]


def exact_step_seconds(
    num_sequences: int, seq_len: int, flops_per_token: int, flops_per_second: int
) -> float:
    """The same number in exact fractions: the seconds of one token, added up."""
    one_token = Fraction(flops_per_token, flops_per_second)
    return float(sum([one_token * seq_len] * num_sequences))


CHECK = Check(
    cases=step_cases,
    reference=step_seconds,
    judge=EqualTo(
        exact_step_seconds,
        Mistake(
            "You count sequences where tokens are meant. How many tokens has one sequence?",
            lambda b, s, work, rate: b * work / rate,
        ),
        Mistake(
            "That is the time of one sequence. How many are in the batch?",
            lambda b, s, work, rate: s * work / rate,
        ),
        Mistake(
            "That is a count of FLOPs. Which of the arguments is a rate, FLOP/s, and what does "
            "a count divided by a rate give?",
            lambda b, s, work, rate: b * s * work,
        ),
        Mistake(
            "Your result is in 1/s: steps per second. How long does one step take?",
            lambda b, s, work, rate: rate / (b * s * work),
        ),
        Mistake(
            "Look at the units: a FLOP/s times a FLOP is no time. What must stand below the line?",
            lambda b, s, work, rate: b * s * work * rate,
        ),
        Mistake(
            "You divide without a remainder. Is a quarter of a second nothing?",
            lambda b, s, work, rate: b * s * work // rate,
        ),
        Mistake(
            "That is the time of one token. How many tokens are in the batch?",
            lambda b, s, work, rate: work / rate,
        ),
        relative_tolerance=NINE_DIGITS,
    ),
)
