"""Check of rounding to a format, measured by torch's conversion.

torch converts float64 to bf16, fp16 and fp8 by way of fp32, and so rounds twice: 1 + 2**-8 + 2**-30
becomes 1 in bf16, although 1 + 2**-7 is nearer. The cases of these formats are numbers that fp32
holds exactly, so that only the second rounding is left.
"""

import random

import torch

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.exercises.model_answers import mistakes_of
from autograder.exercises.u07.value import FLOATS, WIDTHS

TF32 = (8, 10)
NUM_CUT_BITS = 13  # of fp32, to make it tf32
NUM_FORMATS_AT_THE_ENDS = 3


def converted(x: float, num_exponent_bits: int, num_mantissa_bits: int) -> float:
    """What torch makes of ``x``; tf32, which torch has no type for, by integer arithmetic."""
    widths = (num_exponent_bits, num_mantissa_bits)
    if widths == TF32:
        return _tf32_by_integers(x)
    return float(torch.tensor(x, dtype=torch.float64).to(FLOATS[widths]).item())


def _tf32_by_integers(x: float) -> float:
    """Add half a spacing of tf32 to the bits of fp32 as an integer, and cut 13 bits off.

    A carry into the exponent gives the next power of two, or infinity after the last.
    """
    bits = int(torch.tensor([x], dtype=torch.float32).view(torch.int32).item()) & 0xFFFFFFFF
    is_odd = (bits >> NUM_CUT_BITS) & 1
    bits += 2 ** (NUM_CUT_BITS - 1) - 1 + is_odd
    bits -= bits % 2**NUM_CUT_BITS
    return float(torch.tensor([bits], dtype=torch.uint32).view(torch.float32).item())


def rounding_cases(seed: int) -> list[Case]:
    """In each format: between two numbers, in their middle, at zero and at both ends."""
    rng = random.Random(seed)
    cases = [_case(0.3, 5, 2)]
    for number, widths in enumerate(WIDTHS):
        for index, x in enumerate(_between(rng, *widths)):
            cases.append(_case(x if (number + index) % 2 else -x, *widths))
    for widths in rng.choices(WIDTHS, k=NUM_FORMATS_AT_THE_ENDS):
        cases += [_case(rng.choice((-x, x)), *widths) for x in _at_the_ends(rng, *widths)]
    return cases


def _between(rng: random.Random, exponent_bits: int, mantissa_bits: int) -> list[float]:
    """Positive normal numbers, at fractions of a spacing that fp32 holds exactly."""
    bias, scale = 2 ** (exponent_bits - 1) - 1, 2**mantissa_bits
    spacing = 2.0 ** (rng.randint(2 - bias, bias - 1) - mantissa_bits)
    even = 2 * rng.randint(scale // 2, scale - 1)
    last = 2 * scale - 1
    return [
        even * spacing,
        (even + rng.choice((0.25, 0.375))) * spacing,
        (even + rng.choice((0.625, 0.75))) * spacing,
        (even + 0.5) * spacing,
        (even + 1.5) * spacing,
        (even + 0.5) * spacing,  # again, with the other sign
        (last + 0.75) * spacing,  # up to the next power of two
    ]


def _at_the_ends(rng: random.Random, exponent_bits: int, mantissa_bits: int) -> list[float]:
    """Zero, subnormal numbers, and those around the largest."""
    bias, scale = 2 ** (exponent_bits - 1) - 1, 2**mantissa_bits
    tiny, last = 2.0 ** (1 - bias - mantissa_bits), (2 * scale - 1)
    top = 2.0 ** (bias - mantissa_bits)
    few = 2 * rng.randint(1, scale // 2 - 1)
    return [
        0.0,
        (few + 0.25) * tiny,
        (few + 0.5) * tiny,
        (few + 1.5) * tiny,
        (few + 1) * tiny,
        0.5 * tiny,
        0.75 * tiny,
        1.25 * scale * top,
        last * top,
        (last + 0.25) * top,
        (last + 0.5) * top,
        (last + 0.75) * top,
        2 * scale * top,
        3 * scale * top,
        6 * scale * top,
    ]


def _case(x: float, exponent_bits: int, mantissa_bits: int) -> Case:
    return {"x": x, "num_exponent_bits": exponent_bits, "num_mantissa_bits": mantissa_bits}


CHECK = Check(
    cases=rounding_cases,
    judge=EqualTo(converted, *mistakes_of("u07-round"), together=True),
    fallback="course_utils.formulas.number_formats.rounded",
    answers=("course_utils.instruments.bit_patterns.numbers_of",),
    forbidden_modules=("torch", "struct"),
)
