"""Check of the seconds of a training step."""

import operator
import random
from fractions import Fraction
from itertools import accumulate

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.checking.precision import PROMISED
from autograder.exercises.model_answers import mistakes_of


def step_cases(seed: int) -> list[Case]:
    """One sequence and many, odd lengths, rates from a laptop's to a large cluster's.

    One count of FLOPs is more than 64 bits hold. At the end each size is changed by itself.
    """
    rng = random.Random(seed)

    def case(num_sequences: int, digits: int) -> Case:
        return {
            "num_sequences": num_sequences,
            "seq_len": rng.randrange(129, 8193, 2),
            "flops_per_token": rng.randint(10**8, 10**12),
            "flops_per_second": rng.randint(10**digits // 10, 10**digits),
        }

    worked = dict(zip(case(4, 14), (4, 1000, 6 * 10**9, 10**14), strict=True))
    batches = (1, 1, rng.randint(2, 64), rng.randint(65, 4096))
    cases = [case(size, digits) for size in batches for digits in (11, 13, 15, 17, 19)]
    largest = case(4096, 19) | {"seq_len": 8191, "flops_per_token": rng.randint(10**12, 2 * 10**12)}
    start, end = case(rng.randint(2, 64), 14), case(rng.randint(65, 128), 15)
    one_at_a_time = accumulate([start, *({name: each} for name, each in end.items())], operator.or_)
    return [worked, *cases, largest, *one_at_a_time]


def exact_step_seconds(
    num_sequences: int, seq_len: int, flops_per_token: int, flops_per_second: int
) -> float:
    """The number in exact fractions: the seconds of one token, added up."""
    one_token = Fraction(flops_per_token, flops_per_second)
    return float(sum([one_token * seq_len] * num_sequences))


CHECK = Check(
    cases=step_cases,
    judge=EqualTo(
        exact_step_seconds, *mistakes_of("u00-step-seconds"), relative_tolerance=PROMISED
    ),
)
