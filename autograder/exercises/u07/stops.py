"""Check of the value at which a running sum of equal terms stops, measured by adding."""

import math
import random

import torch

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.checking.precision import PROMISED
from autograder.exercises.model_answers import mistakes_of

# By bits of mantissa: fp8-e5m2, bf16 and fp16; fp32 and fp64, in which adding takes too long.
ADDED = {2: torch.float8_e5m2, 7: torch.bfloat16, 10: torch.float16}
UNCHANGED = {23: torch.float32, 52: torch.float64}


def measured_stop(term: float, num_mantissa_bits: int) -> float:
    """The sum that a term no longer changes."""
    if num_mantissa_bits in UNCHANGED:
        return _first_power_unchanged(term, UNCHANGED[num_mantissa_bits], num_mantissa_bits)
    total, last = term, 0.0
    while total != last:  # in fp32, which holds each sum, then rounded: torch cannot add fp8
        last, total = total, torch.tensor(total + term).to(ADDED[num_mantissa_bits]).item()
    return total


def _first_power_unchanged(term: float, dtype: torch.dtype, num_mantissa_bits: int) -> float:
    """The first power of two above the term that adding the term leaves unchanged.

    Adding up would take a million terms or more. On its way a sum meets every power of two: the
    numbers below are spaced such that it cannot skip one.
    """
    lowest = math.frexp(term)[1]
    exponents = range(lowest, lowest + num_mantissa_bits + 3)
    powers = torch.tensor([2.0**power for power in exponents], dtype=dtype)
    unchanged = powers + torch.tensor(term, dtype=dtype) == powers
    return float(powers[unchanged][0])


def stop_cases(seed: int) -> list[Case]:
    """Powers of two and terms in both halves between them, below and above one, in five formats.

    The second case has 52 bits, so that an answer which adds up term by term runs out of time in
    it; a fast machine would finish 23 bits.
    """
    rng = random.Random(seed)
    cases = [_case(1.0, 2), _case(2.0 ** rng.randint(-30, 30), 52)]
    for bits in (*ADDED, *UNCHANGED):
        lowest, highest = (-6, 2) if bits in (2, 10) else (-30, 30)
        halves = (1, 3 * 2**bits // 8), (2 ** (bits - 1), 2**bits - 1), (1, 2**bits - 1)
        powers = (rng.randint(lowest, highest), rng.randint(lowest, -1), rng.randint(1, highest))
        for power, (least, most) in zip(powers, halves, strict=True):
            scale = 2.0 ** (power - bits)
            between = (2**bits + rng.randint(least, most)) * scale
            cases += [_case(2.0**power, bits), _case(between, bits)]
    return cases


def _case(term: float, num_mantissa_bits: int) -> Case:
    return {"term": term, "num_mantissa_bits": num_mantissa_bits}


CHECK = Check(
    cases=stop_cases,
    judge=EqualTo(
        measured_stop,
        *mistakes_of("u07-stops"),
        relative_tolerance=PROMISED,
        together=True,
    ),
    fallback="course_utils.formulas.number_formats.stops_at",
)
