"""Check of the number that a pattern of bits stands for, measured by torch."""

import itertools
import random
from collections.abc import Iterator

import torch

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.exercises.model_answers import Edit, edited

# Exponent and mantissa bits: fp8-e5m2, fp16, bf16, tf32, fp32.
WIDTHS = ((5, 2), (5, 10), (8, 7), (8, 10), (8, 23))
EIGHT_BITS_DIVIDED_OTHERWISE = (4, 3)
OTHER_EXPONENT_BITS = (3, 6, 7)  # of a format that no machine has
INTEGERS = {8: torch.uint8, 16: torch.uint16, 32: torch.uint32}
FLOATS = {
    (5, 2): torch.float8_e5m2,
    (5, 10): torch.float16,
    (8, 7): torch.bfloat16,
    (8, 23): torch.float32,
}


def seen_by_torch(bits: str, num_exponent_bits: int) -> float:
    """The same bits viewed as torch's type; tf32 is fp32 with 13 zeros at the end."""
    if (num_exponent_bits, len(bits)) == (8, 19):
        bits += "0" * 13
    dtype = FLOATS.get((num_exponent_bits, len(bits) - 1 - num_exponent_bits))
    if dtype is None:
        return _seen_in_float64(bits, num_exponent_bits)
    return float(torch.tensor([int(bits, 2)], dtype=INTEGERS[len(bits)]).view(dtype).item())


def _seen_in_float64(bits: str, num_exponent_bits: int) -> float:
    """The fields at their places in float64, times what the two biases differ by as powers."""
    exponent, mantissa = bits[1 : 1 + num_exponent_bits], bits[1 + num_exponent_bits :]
    filling = "0" if "0" in exponent else "1"
    whole = bits[0] + exponent.rjust(11, filling) + mantissa.ljust(52, "0")
    number = torch.tensor([int(whole, 2)], dtype=torch.uint64).view(torch.float64).item()
    return float(number * 2.0 ** (2**10 - 2 ** (num_exponent_bits - 1)))


def value_cases(seed: int) -> list[Case]:
    """In each format: zeros, subnormal and normal numbers, infinities and NaN, of both signs."""
    rng = random.Random(seed)
    cases = [_case("0", "01111", "10")]
    invented = (rng.choice(OTHER_EXPONENT_BITS), rng.randint(4, 9))
    formats = (*WIDTHS, EIGHT_BITS_DIVIDED_OTHERWISE, invented)
    for number, (exponent_bits, mantissa_bits) in enumerate(formats):
        zeros, ones = "0" * exponent_bits, "1" * exponent_bits
        one, two = ("0", "1") if number % 2 else ("1", "0")
        some, other = _some_bits(rng, exponent_bits), _some_bits(rng, exponent_bits)
        cases += [
            _case(one, some, _some_bits(rng, mantissa_bits)),
            _case(two, other, _some_bits(rng, mantissa_bits)),
            _case(one, zeros, _some_bits(rng, mantissa_bits)),
            _case(two, zeros, _some_bits(rng, mantissa_bits)),
            _case(rng.choice("01"), ones, _some_bits(rng, mantissa_bits)),
        ]
    return [*cases, *(case for _ in range(3) for case in _without_mantissa(rng))]


def _without_mantissa(rng: random.Random) -> Iterator[Case]:
    """Zeros and infinities of both signs, in formats of machines and others."""
    for sign, bit in itertools.product("01", repeat=2):
        invented = (rng.choice(OTHER_EXPONENT_BITS), rng.randint(2, 20))
        exponent_bits, mantissa_bits = rng.choice((*WIDTHS, invented, invented, invented))
        yield _case(sign, bit * exponent_bits, "0" * mantissa_bits)


def _some_bits(rng: random.Random, width: int) -> str:
    """Neither all zeros nor all ones."""
    return format(rng.randint(1, 2**width - 2), f"0{width}b")


def _case(sign: str, exponent: str, mantissa: str) -> Case:
    return {"bits": sign + exponent + mantissa, "num_exponent_bits": len(exponent)}


# The model answer's pieces.
FIELDS = "bits[1 : 1 + num_exponent_bits], bits[1 + num_exponent_bits :]"
SIGN, BIAS = '-1 if bits[0] == "1" else 1', "all_ones // 2"
IS_SPECIAL, SPECIAL = (
    "exponent == all_ones",
    "sign * math.inf if mantissa == 0 else math.nan",
)
IS_SUBNORMAL, SUBNORMAL = "exponent == 0", "sign * part * 2.0 ** (1 - bias)"
NORMAL = "sign * (1 + part) * 2.0 ** (exponent - bias)"
DIVISOR, WHOLE = "2 ** len(mantissa_bits)", "int(mantissa_bits, 2)"

NAN_IS_INFINITE = "Your NaN is an infinity. Which bits tell the two apart?"
HAS_HIDDEN_ONE = (
    "Only zero and the numbers beside it are wrong: you give them a hidden one{}. How could zero "
    "be written then?"
)
ENDS_TOO_EARLY = (
    "The last bit of the exponent is in your mantissa. The sign is bit 0: at which bit does the "
    "exponent end?"
)
CUT_TOO_EARLY = {FIELDS: "bits[1:num_exponent_bits], bits[num_exponent_bits:]"}
EDITS = (
    Edit(
        "With 4 bits of exponent you have no infinity, as in the fp8 of some GPUs. What does the "
        "exercise's table say of an exponent of all ones, however many bits it has?",
        {IS_SPECIAL: f'{IS_SPECIAL} and (num_exponent_bits != 4 or "0" not in mantissa_bits)'},
    ),
    *(
        Edit(
            "Your bias fits some formats only. Which formula gives it for any number of exponent "
            "bits?",
            {BIAS: bias},
        )
        for bias in (
            "{4: 7, 5: 15}.get(num_exponent_bits, 127)",
            "{4: 7, 8: 127}.get(num_exponent_bits, 15)",
            "{5: 15, 8: 127}.get(num_exponent_bits, 7)",
            "{5: 15}.get(num_exponent_bits, 127)",
            "{8: 127}.get(num_exponent_bits, 15)",
            "15",
            "127",
        )
    ),
    Edit(NAN_IS_INFINITE, {SPECIAL: "sign * math.inf"}),
    Edit(NAN_IS_INFINITE, {SPECIAL: "sign * math.inf if mantissa == 0 else math.inf"}),
    *(
        Edit(
            "Your infinities are right, and your NaN is an ordinary number. What does an "
            "exponent of all ones mean if the mantissa is not zero?",
            pieces,
        )
        for pieces in (
            {IS_SPECIAL: f"{IS_SPECIAL} and mantissa == 0"},
            {SPECIAL: "sign * math.inf if mantissa == 0 else 0.0"},
        )
    ),
    Edit(
        "Your NaN is right, and your infinities are ordinary numbers. What does an exponent of "
        "all ones mean if the mantissa is zero?",
        {IS_SPECIAL: f"{IS_SPECIAL} and mantissa != 0"},
    ),
    Edit(
        "Only infinities and NaN are wrong: you return very large numbers. What does an exponent "
        "of all ones mean?",
        {IS_SPECIAL: "False"},
    ),
    Edit(
        "Numbers from 1 up to 2 are infinite or NaN: you compare the exponent with the bias. Which "
        "whole number is an exponent of all ones?",
        {IS_SPECIAL: "exponent == bias"},
    ),
    Edit(
        "Your infinities are NaN. Which bits tell the two apart?",
        {SPECIAL: "math.nan"},
    ),
    Edit(
        "Your infinity is always positive. Which bit do all patterns begin with?",
        {SPECIAL: "math.inf if mantissa == 0 else math.nan"},
    ),
    Edit(
        "Every exponent of all ones gives you the same infinity. Which bits tell NaN from an "
        "infinity, and plus from minus?",
        {SPECIAL: "math.inf"},
    ),
    Edit(
        "You have swapped infinity and NaN. Which of them has a mantissa of zeros?",
        {SPECIAL: "math.nan if mantissa == 0 else sign * math.inf"},
    ),
    Edit("None of your numbers is negative. What does the first bit say?", {SIGN: "1"}),
    Edit(
        "Every number has the wrong sign. What does a sign bit of 1 mean?",
        {SIGN: SIGN.replace("-1", "1").replace("else 1", "else -1")},
    ),
    Edit(
        "Zero is right, and you give the numbers beside it a hidden one. Which exponent do they "
        "share with zero, and what does the table say of it?",
        {IS_SUBNORMAL: "exponent == 0 and mantissa == 0"},
    ),
    Edit(HAS_HIDDEN_ONE.format(""), {IS_SUBNORMAL: "False"}),
    Edit(
        HAS_HIDDEN_ONE.format(", at the right power of two"),
        {SUBNORMAL: SUBNORMAL.replace("part", "(1 + part)")},
    ),
    Edit(
        "Your subnormal numbers are half of what they should be. With your power of two, how "
        "large is the gap between the largest of them and the smallest normal number?",
        {SUBNORMAL: "sign * part * 2.0**-bias"},
    ),
    Edit(
        "Your subnormal numbers are all zero. What does their mantissa still say?",
        {SUBNORMAL: "0.0"},
    ),
    Edit(
        "You leave out the hidden one of normal numbers. Which number is a mantissa of zeros?",
        {NORMAL: NORMAL.replace("(1 + part)", "part")},
    ),
    Edit(
        "All your numbers are half of what they should be. The exponent bits of 1.0 are a zero "
        "and then ones: which number is that?",
        {BIAS: "2 ** (num_exponent_bits - 1)"},
    ),
    Edit(
        "Your numbers are far too small: your bias is the largest exponent of all. The exponent "
        "bits of 1.0 are a zero and then ones: which number is that?",
        {BIAS: "2**num_exponent_bits - 1"},
    ),
    *(
        Edit(
            "Your powers of two are far too large: you take the exponent as it stands. What is "
            "subtracted from it?",
            each,
        )
        for each in ({NORMAL: "sign * (1 + part) * 2.0**exponent"}, {BIAS: "0"})
    ),
    Edit(
        "Your large numbers are small, and your small ones large. In the power of two, what is "
        "subtracted from what?",
        {NORMAL: NORMAL.replace("exponent - bias", "bias - exponent")},
    ),
    *(
        Edit(
            "You divide the mantissa by the wrong power of two. How many numbers lie from 1 up "
            "to 2?",
            {DIVISOR: divisor},
        )
        for divisor in ("2**num_exponent_bits", "2 ** (len(mantissa_bits) - 1)")
    ),
    Edit(
        "Nearly: you count a mantissa of ones as a whole one. How many numbers lie from 1 up to, "
        "but not including, 2?",
        {DIVISOR: f"({DIVISOR} - 1)"},
    ),
    Edit(
        "You add the mantissa as a whole number. How many numbers lie from 1 up to 2?",
        {DIVISOR: "1"},
    ),
    *(
        Edit(
            f"You divide the mantissa by the same power of two{where}. How many bits of a pattern "
            "are left after the sign and the exponent?",
            {DIVISOR: divisor},
        )
        for divisor, where in (
            ("2 ** (7 - num_exponent_bits)", " as in a format of 8 bits"),
            ("4", " in every format"),
            ("2**7", " in every format"),
            ("2**10", " in every format"),
        )
    ),
    Edit(ENDS_TOO_EARLY, CUT_TOO_EARLY),
    Edit(ENDS_TOO_EARLY, {**CUT_TOO_EARLY, IS_SPECIAL: '"0" not in exponent_bits'}),
    Edit(
        "The sign bit is in your exponent. Bit 0 is the sign: at which bit does the exponent "
        "begin?",
        {FIELDS: "bits[:num_exponent_bits], bits[num_exponent_bits:]"},
    ),
    Edit(
        "You read the mantissa as a decimal number. Which number are the bits 10 in base 2?",
        {WHOLE: "int(mantissa_bits)"},
    ),
    Edit(
        "You put the bits of the mantissa behind a decimal point. In base 2, what is the first "
        "bit behind the point worth?",
        {f"mantissa / {DIVISOR}": 'float("0." + mantissa_bits)'},
    ),
    Edit(
        "You read the bits of the mantissa backwards. Which of them is worth a half: the first, "
        "or the last?",
        {WHOLE: "int(mantissa_bits[::-1], 2)"},
    ),
    Edit(
        "You treat every pattern as an ordinary number. Which two exponents does the exercise's "
        "table set apart?",
        {IS_SPECIAL: "False", IS_SUBNORMAL: "False"},
    ),
)

CHECK = Check(
    cases=value_cases,
    judge=EqualTo(seen_by_torch, *edited("u07-value", EDITS), together=True),
    fallback="course_utils.formulas.number_formats.value_of",
    answers=("course_utils.instruments.bit_patterns.numbers_of",),
    forbidden_modules=("torch", "struct"),
)
