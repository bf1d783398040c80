"""Check of the value at which a running sum of equal terms stops, measured by adding."""

import math
import random

import torch
from torch import Tensor

from course_utils.checks.check import Case, Check
from course_utils.checks.judges import EqualTo, Mistake
from course_utils.formulas.number_formats import rounded, stops_at

NUM_EXPONENT_BITS = {2: 5, 7: 8, 10: 5, 23: 8}  # fp8-e5m2, bf16, fp16, fp32
ADDED_BY_TORCH = {7: torch.bfloat16, 10: torch.float16}


def measured_stop(term: float, num_mantissa_bits: int) -> float:
    """The sum that a term no longer changes."""
    if num_mantissa_bits == 23:
        return _first_power_unchanged(term)
    if num_mantissa_bits in ADDED_BY_TORCH:
        return _added(torch.tensor(term, dtype=ADDED_BY_TORCH[num_mantissa_bits]))
    total, last = term, 0.0  # torch cannot add fp8
    while total != last:
        last, total = total, rounded(total + term, NUM_EXPONENT_BITS[2], 2)
    return total


def _added(term: Tensor) -> float:
    total, last = term, torch.zeros_like(term)
    while not torch.equal(total, last):
        last, total = total, total + term
    return float(total)


def _first_power_unchanged(term: float) -> float:
    """Of all powers of two in fp32, where counting up would take millions of steps.

    A sum passes through every power of two on its way: below it each step is a whole number of
    times the distance to it.
    """
    powers = torch.tensor([2.0**power for power in range(-126, 128)])
    unchanged = powers + torch.tensor(term, dtype=torch.float32) == powers
    return float(powers[unchanged][0])


def stop_cases(seed: int) -> list[Case]:
    """Powers of two and terms between them, below and above one, in four formats."""
    rng = random.Random(seed)
    cases = [_case(1.0, 2)]
    for bits in NUM_EXPONENT_BITS:
        lowest, highest = (-6, 2) if bits in (2, 10) else (-30, 30)
        for power in (0, rng.randint(lowest, -1), rng.randint(1, highest)):
            scale = 2.0 ** (power - bits)
            cases += [
                _case(2.0**power, bits),
                _case((2**bits + rng.randint(1, 2**bits - 1)) * scale, bits),
            ]
    return cases


def _case(term: float, num_mantissa_bits: int) -> Case:
    return {"term": term, "num_mantissa_bits": num_mantissa_bits}


def _at_power(term: float, power: int) -> float:
    """With a power added to the term's own, rounded up."""
    return math.ldexp(1.0, power + math.ceil(math.log2(term)))


STOPS_AT = Check(
    cases=stop_cases,
    reference=stops_at,
    judge=EqualTo(
        measured_stop,
        Mistake(
            "Right for powers of two alone. At your stop the term is still more than half a "
            "step: what does rounding do with it?",
            lambda term, m: math.ldexp(1.0, m + 1 + math.floor(math.log2(term))),
        ),
        Mistake(
            "Right for powers of two alone, and otherwise too small by a half or less. The step "
            "grows only at powers of two: which one does your sum have to reach?",
            lambda term, m: term * 2 ** (m + 1),
        ),
        Mistake(
            "That is the term and all its bits. Where is the step as large as the term, and is "
            "half a step still rounded up?",
            lambda term, m: term * 2**m,
        ),
        Mistake(
            "Wrong for powers of two alone. There the term is exactly half a step: to which side "
            "does the tie go?",
            lambda term, m: math.ldexp(1.0, m + 2 + math.floor(math.log2(term))),
        ),
        Mistake(
            "Your sum stops one power of two too late. How large is the step at a power of two, "
            "and is your term still more than half of it?",
            lambda term, m: _at_power(term, m + 2),
        ),
        Mistake(
            "The same for every term of a format. Does a sum of small terms reach as far as one "
            "of large terms?",
            lambda term, m: 2.0 ** (m + 1),
        ),
        Mistake(
            "Your sum stops where the step is as large as the term. How small may a term be and "
            "still be rounded up to a step?",
            _at_power,
        ),
        together=True,
    ),
)
