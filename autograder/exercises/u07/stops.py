"""Check of the value at which a running sum of equal terms stops, measured by adding."""

import math
import random

import torch
from torch import Tensor

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo, Mistake
from course_utils.formulas.number_formats import rounded, stops_at

WIDTHS = (2, 7, 10, 23, 52)  # fp8-e5m2, bf16, fp16, fp32 and Python's own, fp64
FP8_EXPONENT_BITS = 5
ADDED_BY_TORCH = {7: torch.bfloat16, 10: torch.float16}
UNCHANGED = {23: torch.float32, 52: torch.float64}


def measured_stop(term: float, num_mantissa_bits: int) -> float:
    """The sum that a term no longer changes."""
    if num_mantissa_bits in UNCHANGED:
        return _first_power_unchanged(term, UNCHANGED[num_mantissa_bits], num_mantissa_bits)
    if num_mantissa_bits in ADDED_BY_TORCH:
        return _added(torch.tensor(term, dtype=ADDED_BY_TORCH[num_mantissa_bits]))
    total, last = term, 0.0  # torch cannot add fp8
    while total != last:
        last, total = total, rounded(total + term, FP8_EXPONENT_BITS, 2)
    return total


def _added(term: Tensor) -> float:
    total, last = term, torch.zeros_like(term)
    while not torch.equal(total, last):
        last, total = total, total + term
    return float(total)


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
    cases = [_case(1.0, 2), _case(1.0, 52)]
    for bits in WIDTHS:
        lowest, highest = (-6, 2) if bits in (2, 10) else (-30, 30)
        halves = (1, 3 * 2**bits // 8), (2 ** (bits - 1), 2**bits - 1), (1, 2**bits - 1)
        powers = (0, rng.randint(lowest, -1), rng.randint(1, highest))
        for power, (least, most) in zip(powers, halves, strict=True):
            scale = 2.0 ** (power - bits)
            between = (2**bits + rng.randint(least, most)) * scale
            cases += [_case(2.0**power, bits), _case(between, bits)]
    return cases


def _case(term: float, num_mantissa_bits: int) -> Case:
    return {"term": term, "num_mantissa_bits": num_mantissa_bits}


def _at_power(term: float, power: int) -> float:
    """``2**power`` times the first power of two that is not below the term."""
    return math.ldexp(1.0, power + math.ceil(math.log2(term)))


CHECK = Check(
    cases=stop_cases,
    reference=stops_at,
    judge=EqualTo(
        measured_stop,
        Mistake(
            "Wrong for some terms between two powers of two: you go to the nearer of the two. How "
            "large is the term against the spacing at the lower one?",
            lambda term, m: math.ldexp(1.0, m + 1 + round(math.log2(term))),
        ),
        Mistake(
            "That is the power, not the number. Which sum does the exercise ask for?",
            lambda term, m: m + 1 + math.ceil(math.log2(term)),
        ),
        Mistake(
            "You are one term short: that is a sum before the last term that still moves it. At "
            "which value does it stay?",
            lambda term, m: _at_power(term, m + 1) - term,
        ),
        Mistake(
            "Right for powers of two alone. At your stop the term is still more than half a "
            "spacing: what does rounding do with it?",
            lambda term, m: math.ldexp(1.0, m + 1 + math.floor(math.log2(term))),
        ),
        Mistake(
            "Right for powers of two alone, and otherwise too small by a half or less. The "
            "spacing grows only at powers of two: which one does your sum have to reach?",
            lambda term, m: term * 2 ** (m + 1),
        ),
        Mistake(
            "That is the term and all its bits. Where is the spacing as large as the term, and "
            "is half a spacing still rounded up?",
            lambda term, m: term * 2**m,
        ),
        Mistake(
            "Wrong for powers of two alone. There the term is exactly half a spacing: to "
            "which side does the tie go?",
            lambda term, m: math.ldexp(1.0, m + 2 + math.floor(math.log2(term))),
        ),
        Mistake(
            "Your sum stops one power of two too late. How large is the spacing at a power of "
            "two, and is your term still more than half of it?",
            lambda term, m: _at_power(term, m + 2),
        ),
        Mistake(
            "The same for every term of a format. Does a sum of small terms reach as far as one "
            "of large terms?",
            lambda term, m: 2.0 ** (m + 1),
        ),
        Mistake(
            "Your sum stops where the spacing is as large as the term. How small may a term be and "
            "still be rounded up to a whole spacing?",
            _at_power,
        ),
        together=True,
    ),
)
