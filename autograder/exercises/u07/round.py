"""Check of rounding to a format, measured by torch's conversion.

torch converts float64 to bf16, fp16 and fp8 by way of fp32, and so rounds twice: 1 + 2**-8 + 2**-30
becomes 1 in bf16, although 1 + 2**-7 is nearer. The cases of these formats are numbers that fp32
holds exactly, so that only the second rounding is left.
"""

import math
import random
from collections.abc import Callable

import torch

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo, Mistake
from autograder.exercises.u07.value import FLOATS, WIDTHS
from course_utils.configs import NumberFormat
from course_utils.formulas.number_formats import largest, rounded

TF32 = (8, 10)
NUM_CUT_BITS = 13  # of fp32, to make it tf32


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
    for number, (exponent_bits, mantissa_bits) in enumerate(WIDTHS):
        for index, x in enumerate(_numbers(rng, exponent_bits, mantissa_bits)):
            sign = 1 if (number + index) % 2 else -1
            cases.append(_case(sign * x, exponent_bits, mantissa_bits))
    return cases


def _numbers(rng: random.Random, exponent_bits: int, mantissa_bits: int) -> list[float]:
    """Positive numbers of every kind, at fractions of a spacing that fp32 holds exactly."""
    bias, scale = 2 ** (exponent_bits - 1) - 1, 2**mantissa_bits
    spacing = 2.0 ** (rng.randint(2 - bias, bias - 1) - mantissa_bits)
    even = 2 * rng.randint(scale // 2, scale - 1)
    tiny, last = 2.0 ** (1 - bias - mantissa_bits), (2 * scale - 1)
    top = 2.0 ** (bias - mantissa_bits)
    few = 2 * rng.randint(1, scale // 2 - 1)
    return [
        even * spacing,
        (even + rng.choice((0.25, 0.375))) * spacing,
        (even + rng.choice((0.625, 0.75))) * spacing,
        (even + 0.5) * spacing,
        (even + 1.5) * spacing,
        (even + 0.5) * spacing,  # again, with the other sign
        (last + 0.75) * spacing,  # up to the next power of two
        0.0,
        (few + 0.25) * tiny,
        (few + 0.5) * tiny,
        (few + 1.5) * tiny,
        0.5 * tiny,
        0.75 * tiny,
        last * top,
        (last + 0.25) * top,
        (last + 0.5) * top,
        (last + 0.75) * top,
        6 * scale * top,
    ]


def _case(x: float, exponent_bits: int, mantissa_bits: int) -> Case:
    return {"x": x, "num_exponent_bits": exponent_bits, "num_mantissa_bits": mantissa_bits}


def _rounded_by(  # noqa: PLR0913  what people get wrong, one by one
    x: float,
    exponent_bits: int,
    mantissa_bits: int,
    *,
    whole: Callable[[float], float] = round,
    more_power: int = 0,
    lowest: int | None = 0,
    more_top: float = 0,
) -> float:
    """Rounding with one part of it changed.

    ``more_power`` makes the spacing larger, ``lowest`` moves the power below which it stays the
    same (None: it never does), ``more_top`` the one above which there is infinity.
    """
    bias = 2 ** (exponent_bits - 1) - 1
    power = math.frexp(x)[1] - 1 if x else -bias
    if lowest is not None:
        power = max(power, 1 - bias + lowest)
    spacing = 2.0 ** (power - mantissa_bits + more_power)
    nearest = whole(x / spacing) * spacing
    is_infinite = abs(nearest) >= 2.0 ** (bias + 1 + more_top)
    return math.copysign(math.inf, x) if is_infinite else float(nearest)


def _largest(exponent_bits: int, mantissa_bits: int) -> float:
    return largest(NumberFormat(num_exponent_bits=exponent_bits, num_mantissa_bits=mantissa_bits))


def _saturated(x: float, *widths: int) -> float:
    result = rounded(x, *widths)
    return math.copysign(_largest(*widths), x) if math.isinf(result) else result


def _infinite_at_once(x: float, *widths: int) -> float:
    return math.copysign(math.inf, x) if abs(x) > _largest(*widths) else rounded(x, *widths)


def _flushed_to_zero(x: float, *widths: int) -> float:
    return 0.0 if abs(x) < 2.0 ** (2 - 2 ** (widths[0] - 1)) else rounded(x, *widths)


def _unsigned_infinity(x: float, *widths: int) -> float:
    result = rounded(x, *widths)
    return math.inf if math.isinf(result) else result


CHECK = Check(
    cases=rounding_cases,
    reference=rounded,
    forbidden_modules=("torch", "struct"),
    judge=EqualTo(
        converted,
        Mistake(
            "You cut digits off. 0.3 lies between 0.25 and 0.3125 in five and two bits: which of "
            "the two is nearer?",
            lambda *case: _rounded_by(*case, whole=math.trunc),
        ),
        Mistake(
            "You always go down, and negative numbers so away from zero. Which of the two "
            "neighbours is nearer?",
            lambda *case: _rounded_by(*case, whole=math.floor),
        ),
        Mistake(
            "Ties are wrong, and nothing else: a number in the middle goes away from zero with "
            "you. Which of its two neighbours is even?",
            lambda *case: _rounded_by(
                *case, whole=lambda q: math.copysign(math.floor(abs(q) + 0.5), q)
            ),
        ),
        Mistake(
            "Ties are wrong, and nothing else: a number in the middle goes up with you. Which of "
            "its two neighbours is even?",
            lambda *case: _rounded_by(*case, whole=lambda q: math.floor(q + 0.5)),
        ),
        Mistake(
            "You always go up. Which of the two neighbours is nearer?",
            lambda *case: _rounded_by(*case, whole=math.ceil),
        ),
        Mistake(
            "The largest numbers are twice as large with you as they can be. Which exponent is "
            "kept for infinity and NaN?",
            lambda *case: _rounded_by(*case, more_top=1),
        ),
        Mistake(
            "Nothing has changed but decimal digits: the second number of Python's round counts "
            "those. Of what is every number of the format a whole multiple?",
            lambda x, _, mantissa_bits: round(x, mantissa_bits),
        ),
        Mistake(
            "No number of yours is infinite. What comes behind the largest one?",
            lambda *case: _rounded_by(*case, more_top=math.inf),
        ),
        Mistake(
            "Numbers that are too large become the largest with you. To which side does IEEE "
            "round them?",
            _saturated,
        ),
        Mistake(
            "What lies above the largest number is infinite with you, however near it is. Where "
            "is the middle between it and the power of two that follows?",
            _infinite_at_once,
        ),
        Mistake(
            "Only the largest numbers are wrong: from 2 to the power of the bias on, all is "
            "infinite with you. How many numbers has the format up to the next power of two?",
            lambda *case: _rounded_by(*case, more_top=-1),
        ),
        Mistake(
            "Infinity has no sign with you. What becomes of a large negative number?",
            _unsigned_infinity,
        ),
        Mistake(
            "Small numbers are zero with you before they have to be. What is there between "
            "the smallest normal number and zero?",
            _flushed_to_zero,
        ),
        Mistake(
            "Only subnormal numbers are wrong: your spacing there is half as large as it is. "
            "Which power do they have, -bias or one more?",
            lambda *case: _rounded_by(*case, lowest=-1),
        ),
        Mistake(
            "Small numbers come out too exactly: your spacing goes on shrinking. Where does the "
            "power of two stop, however small the number is?",
            lambda *case: _rounded_by(*case, lowest=None),
        ),
        Mistake(
            "All spacings are twice as large with you. The first value of math.frexp is between a "
            "half and one: which power of two is below 1.5?",
            lambda *case: _rounded_by(*case, more_power=1, lowest=-1),
        ),
        Mistake(
            "Spacings are twice as large with you, down to the smallest number. Is the hidden "
            "one among the bits that the mantissa has?",
            lambda *case: _rounded_by(*case, more_power=1),
        ),
        Mistake(
            "Spacings are half as large with you as they are. Is the hidden one among the bits "
            "that the mantissa has?",
            lambda *case: _rounded_by(*case, more_power=-1),
        ),
        Mistake(
            "No number is negative with you. What does the sign bit do while the rest is rounded?",
            lambda *case: abs(rounded(*case)),
        ),
        together=True,
    ),
)
