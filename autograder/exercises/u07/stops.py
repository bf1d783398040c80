"""Check of the value at which a running sum of equal terms stops, measured by adding."""

import math
import random

import torch

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.checking.precision import PROMISED
from autograder.exercises.model_answers import Edit, edited

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


# The model answer's pieces.
ABOVE, POWER = "math.ceil(math.log2(term))", "power_above_term + 1 + num_mantissa_bits"
STOP = f"2.0 ** ({POWER})"
EDITS = (
    Edit(
        "Wrong for some terms between two powers of two: you go to the nearer of the two. At the "
        "lower one, how large is the term compared with the spacing?",
        {ABOVE: "round(math.log2(term))"},
    ),
    Edit(
        "Right for terms below one, wrong for terms above one that are not powers of two: you "
        "cut digits off. Which way does that round a logarithm below zero, and which way one "
        "above?",
        {ABOVE: "int(math.log2(term))"},
    ),
    Edit(
        "Right near one; the further from one a term is, the more powers of two you are off. "
        "What is the base of your logarithm, and what is the base of your power?",
        {ABOVE: "math.ceil(math.log(term))"},
    ),
    Edit(
        "That is the spacing at which the term is lost. Which sum has that spacing?",
        {POWER: "power_above_term + 1"},
    ),
    Edit(
        "That is the exponent of a power of two. Which sum does the exercise ask for?",
        {STOP: POWER},
    ),
    Edit(
        "You are one term short: from there, one more term still moves the sum. At which value "
        "does it stay?",
        {STOP: f"{STOP} - term"},
    ),
    Edit(
        "Right only for powers of two. At your stop, any other term is more than half a spacing: "
        "what does rounding do with it?",
        {ABOVE: "math.floor(math.log2(term))"},
    ),
    Edit(
        "Right only for powers of two; otherwise too small by up to a half. The spacing grows "
        "only at powers of two: which one does your sum have to reach?",
        {STOP: "term * 2.0 ** (1 + num_mantissa_bits)"},
    ),
    Edit(
        "That is the term, shifted by all bits of the mantissa. There the spacing is at most the "
        "term: what does rounding do with half a spacing or more?",
        {STOP: "term * 2.0**num_mantissa_bits"},
    ),
    Edit(
        "Wrong only for powers of two. There the term is exactly half a spacing: which way does "
        "the tie go?",
        {ABOVE: "math.floor(math.log2(term)) + 1"},
    ),
    Edit(
        "Your sum stops one power of two too late. At the power before, is the term still more "
        "than half a spacing?",
        {POWER: POWER.replace("1", "2")},
    ),
    Edit(
        "Right for terms of one and more; you treat every smaller term like one. How far does a "
        "sum of small terms reach?",
        {ABOVE: "max(0, math.ceil(math.log2(term)))"},
    ),
    Edit(
        "You double the term until it is lost, so you stop at the term times a power of two. "
        "Which other numbers does the sum meet on its way up?",
        {STOP: f"term * 2.0 ** ({POWER} - math.floor(math.log2(term)))"},
    ),
    *(
        Edit(
            "Your value is the same for every term of a format. Does a sum of small terms reach "
            "as far as one of large terms?",
            {STOP: f"2.0 ** ({more} + num_mantissa_bits)"},
        )
        for more in (0, 1, 2)
    ),
    Edit(
        "Your sum stops where the spacing is as large as the term. How small may a term be and "
        "still be rounded up to a whole spacing?",
        {POWER: POWER.replace(" + 1", "")},
    ),
    Edit(
        "At your stop the spacing is no larger than the term. What becomes of a term of two "
        "thirds of a spacing, and what of one of exactly half?",
        {ABOVE: "math.floor(math.log2(term))", POWER: POWER.replace(" + 1", "")},
    ),
)

CHECK = Check(
    cases=stop_cases,
    judge=EqualTo(
        measured_stop,
        *edited("u07-stops", EDITS),
        relative_tolerance=PROMISED,
        together=True,
    ),
    fallback="course_utils.formulas.number_formats.stops_at",
)
