"""Check of rounding to a format, measured by torch's conversion.

torch converts float64 to bf16, fp16 and fp8 by way of fp32, and so rounds twice: 1 + 2**-8 + 2**-30
becomes 1 in bf16, although 1 + 2**-7 is nearer. The cases of these formats are numbers that fp32
holds exactly, so that only the second rounding is left.
"""

import random

import torch

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.exercises.model_answers import Edit, edited
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


# The model answer's pieces.
POWER, LOWEST, WIDTH = "max(above - 1, 1 - bias)", "1 - bias", "- num_mantissa_bits"
WHOLE, IS_INFINITE = "round(x / spacing)", "abs(nearest) >= 2.0 ** (bias + 1)"
INFINITY, RETURN = "math.copysign(math.inf, x)", "return nearest"
LARGEST = "2.0 ** (bias + 1) - 2.0 ** (bias - num_mantissa_bits)"
EDITS = (
    Edit(
        "You turn what lies between half the smallest number and that number into zero. Which of "
        "the two is nearer?",
        {RETURN: f"return nearest if abs(x) >= 2.0 ** ({LOWEST} {WIDTH}) else 0.0"},
    ),
    Edit(
        "Only subnormal numbers are wrong: your spacing there is twice as large as it should be. "
        "Which power of two is the smallest normal number?",
        {LOWEST: f"1 + {LOWEST}"},
    ),
    Edit(
        "Only ties are wrong: you round them away from zero. Which of the two neighbors is even?",
        {WHOLE: "math.copysign(math.floor(abs(x) / spacing + 0.5), x)"},
    ),
    Edit(
        "Only ties are wrong: you round them up. Which of the two neighbors is even?",
        {WHOLE: "math.floor(x / spacing + 0.5)"},
    ),
    Edit(
        "You cut digits off. 0.3 lies between 0.25 and 0.3125 in five and two bits: which of "
        "the two is nearer?",
        {WHOLE: "int(x / spacing)"},
    ),
    Edit(
        "You always round down, negative numbers away from zero. Which of the two neighbors is "
        "nearer?",
        {WHOLE: "math.floor(x / spacing)"},
    ),
    Edit(
        "You always round up. Which of the two neighbors is nearer?",
        {WHOLE: "math.ceil(x / spacing)"},
    ),
    Edit(
        "Your negative numbers go to the neighbor above, however near the other one is. If you "
        "add a half and cut off, which way does that go below zero?",
        {WHOLE: "int(x / spacing + 0.5)"},
    ),
    Edit(
        "Some numbers become 2 to the power of bias + 1, which the format does not have: before "
        "rounding they are smaller. Which number should you test: x, or the rounded one?",
        {IS_INFINITE: IS_INFINITE.replace("nearest", "x")},
    ),
    Edit(
        "You return exactly 2 to the power of bias + 1. Is that a number of the format?",
        {IS_INFINITE: IS_INFINITE.replace(">=", ">")},
    ),
    Edit(
        "Your largest numbers are twice what the format can hold. Which exponent is reserved for "
        "infinity and NaN?",
        {IS_INFINITE: IS_INFINITE.replace("1", "2")},
    ),
    *(
        Edit(
            "You round to decimal digits: that is what the second number of Python's round "
            "counts. Every number of the format is a whole multiple of what?",
            {f"{WHOLE} * spacing": "round(x, num_mantissa_bits)", **more},
        )
        for more in ({}, {IS_INFINITE: "False"})
    ),
    Edit(
        "None of your numbers is infinite. What comes after the largest one?",
        {IS_INFINITE: "False"},
    ),
    Edit(
        "You turn numbers that are too large into the largest one. What does the exercise turn "
        "them into?",
        {INFINITY: f"math.copysign({LARGEST}, x)"},
    ),
    Edit(
        "You turn everything above the largest number into infinity, however near it is. Where "
        "is the middle between it and the next power of two?",
        {IS_INFINITE: f"abs(x) > {LARGEST}"},
    ),
    Edit(
        "You turn the largest number itself into infinity. On which side of your limit does it "
        "lie?",
        {IS_INFINITE: f"abs(nearest) >= {LARGEST}"},
    ),
    Edit(
        "Only the largest numbers are wrong: from 2 to the power of the bias on, you return "
        "infinity. How many numbers does the format have up to the next power of two?",
        {IS_INFINITE: "abs(nearest) >= 2.0**bias"},
    ),
    Edit(
        "Your infinity is always positive. What becomes of a large negative number?",
        {INFINITY: "math.inf"},
    ),
    Edit(
        "Your finite numbers are all positive. What becomes of the sign while the rest is rounded?",
        {RETURN: "return abs(nearest)"},
    ),
    Edit(
        "None of your numbers is negative. What becomes of the sign while the rest is rounded?",
        {RETURN: "return abs(nearest)", INFINITY: "math.inf"},
    ),
    Edit(
        "You turn small numbers into zero too early. What lies between the smallest normal "
        "number and zero?",
        {RETURN: f"return nearest if abs(x) >= 2.0 ** ({LOWEST}) else 0.0"},
    ),
    Edit(
        "Only subnormal numbers are wrong: your spacing there is half of what it should be. "
        "Which power do they have, -bias or one more?",
        {LOWEST: "-bias"},
    ),
    Edit(
        "Your small numbers are too exact: your spacing goes on shrinking. Where does the power "
        "of two stop, however small the number is?",
        {POWER: "(above - 1)"},
    ),
    Edit(
        "You use the spacing of subnormal numbers, or a smaller one, everywhere. Which of the "
        "two powers is meant: the larger, or the smaller?",
        {POWER: POWER.replace("max", "min")},
    ),
    Edit(
        "All your spacings are twice as large as they should be. The first value of math.frexp "
        "is between a half and one: which power of two is below 1.5?",
        {"above - 1": "above"},
    ),
    Edit(
        "Your spacings are twice as large as they should be, down to the smallest number. Does "
        "the hidden one count among the bits of the mantissa?",
        {WIDTH: f"{WIDTH} + 1"},
    ),
    Edit(
        "Your spacings are half of what they should be. Does the hidden one count among the bits "
        "of the mantissa?",
        {WIDTH: f"{WIDTH} - 1"},
    ),
    Edit(
        "You return the number of spacings. How large is each of them?",
        {f"{WHOLE} * spacing": WHOLE},
    ),
    Edit(
        "You multiply by the spacing before rounding. How many spacings are there in x?",
        {f"{WHOLE} * spacing": "round(x * spacing) / spacing"},
    ),
)

CHECK = Check(
    cases=rounding_cases,
    judge=EqualTo(converted, *edited("u07-round", EDITS), together=True),
    fallback="course_utils.formulas.number_formats.rounded",
    answers=("course_utils.instruments.bit_patterns.numbers_of",),
    forbidden_modules=("torch", "struct"),
)
