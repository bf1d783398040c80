"""Check of the number that a pattern of bits stands for, measured by torch."""

import math
import random

import torch

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo, Mistake
from course_utils.formulas.number_formats import value_of

# Exponent and mantissa bits: fp8-e5m2, fp16, bf16, tf32, fp32.
WIDTHS = ((5, 2), (5, 10), (8, 7), (8, 10), (8, 23))
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
    dtype = FLOATS[num_exponent_bits, len(bits) - 1 - num_exponent_bits]
    return float(torch.tensor([int(bits, 2)], dtype=INTEGERS[len(bits)]).view(dtype).item())


def value_cases(seed: int) -> list[Case]:
    """In each format: zeros, subnormal and normal numbers, infinities and NaN, of both signs."""
    rng = random.Random(seed)
    cases = [_case("0", "01111", "10")]
    for number, (exponent_bits, mantissa_bits) in enumerate(WIDTHS):
        zeros, ones = "0" * exponent_bits, "1" * exponent_bits
        signs = ("0", "1") if number % 2 else ("1", "0")
        some, other = _some_bits(rng, exponent_bits), _some_bits(rng, exponent_bits)
        one, two = signs
        cases += [
            _case(one, some, _some_bits(rng, mantissa_bits)),
            _case(two, other, _some_bits(rng, mantissa_bits)),
            _case(one, zeros, _some_bits(rng, mantissa_bits)),
            _case(two, zeros, _some_bits(rng, mantissa_bits)),
            _case(one, zeros, "0" * mantissa_bits),
            _case(two, ones, "0" * mantissa_bits),
            _case(one, ones, "0" * mantissa_bits),
            _case(two, ones, _some_bits(rng, mantissa_bits)),
        ]
    return cases


def _some_bits(rng: random.Random, width: int) -> str:
    """Neither all zeros nor all ones."""
    return format(rng.randint(1, 2**width - 2), f"0{width}b")


def _case(sign: str, exponent: str, mantissa: str) -> Case:
    return {"bits": sign + exponent + mantissa, "num_exponent_bits": len(exponent)}


def _fields(bits: str, num_exponent_bits: int) -> tuple[int, int, float, int]:
    """Sign as a factor, exponent, fraction of the mantissa, bias."""
    exponent, mantissa = bits[1 : 1 + num_exponent_bits], bits[1 + num_exponent_bits :]
    fraction = int(mantissa, 2) / 2 ** len(mantissa)
    return 1 - 2 * int(bits[0]), int(exponent, 2), fraction, int(2 ** (num_exponent_bits - 1)) - 1


def _normal(bits: str, width: int, *, hidden: float = 1.0, more_bias: int = 0) -> float:
    sign, exponent, fraction, bias = _fields(bits, width)
    return float(sign * (hidden + fraction) * 2.0 ** (exponent - bias - more_bias))


def _kind(bits: str, num_exponent_bits: int) -> str:
    exponent = bits[1 : 1 + num_exponent_bits]
    if "0" not in exponent:
        return "nan" if "1" in bits[1 + num_exponent_bits :] else "inf"
    return "normal" if "1" in exponent else "subnormal"


def _other_normal(bits: str, width: int, *, hidden: float = 1.0, more_bias: int = 0) -> float:
    """Wrong for normal numbers only."""
    if _kind(bits, width) != "normal":
        return value_of(bits, width)
    return _normal(bits, width, hidden=hidden, more_bias=more_bias)


def _other_bias(bits: str, width: int, more_bias: int) -> float:
    """Wrong in the bias only."""
    kind = _kind(bits, width)
    if kind in ("nan", "inf"):
        return value_of(bits, width)
    if kind == "subnormal":
        return math.ldexp(value_of(bits, width), -more_bias)
    return _normal(bits, width, more_bias=more_bias)


def _other_subnormal(bits: str, width: int, hidden: int, power: int) -> float:
    """Wrong for subnormal numbers only, which get ``2**(power - bias)``."""
    if _kind(bits, width) != "subnormal":
        return value_of(bits, width)
    return _normal(bits, width, hidden=hidden, more_bias=-power)


def _other_mantissa(bits: str, width: int, divisor: int) -> float:
    """Wrong only in what the mantissa is divided by."""
    sign, exponent, fraction, bias = _fields(bits, width)
    if _kind(bits, width) in ("nan", "inf"):
        return value_of(bits, width)
    hidden, power = (1, exponent - bias) if exponent else (0, 1 - bias)
    whole = fraction * 2 ** (len(bits) - 1 - width)
    return float(sign * (hidden + whole / divisor) * 2.0**power)


def _cut_too_early(bits: str, width: int) -> float:
    """The last bit of the exponent goes to the mantissa."""
    exponent, mantissa = bits[1:width], bits[width:]
    sign, part = 1 - 2 * int(bits[0]), int(mantissa, 2) / 2 ** len(mantissa)
    bias = 2 ** (width - 1) - 1
    hidden, power = (1, int(exponent, 2) - bias) if "1" in exponent else (0, 1 - bias)
    return float(sign * (hidden + part) * 2.0**power)


def _decimal_mantissa(bits: str, width: int, *, is_behind_a_point: bool) -> float:
    """The zeros and ones of the mantissa as decimal digits, over 2^M or behind a point."""
    sign, exponent, _, bias = _fields(bits, width)
    if _kind(bits, width) in ("nan", "inf"):
        return value_of(bits, width)
    digits = bits[1 + width :]
    part = float(f"0.{digits}") if is_behind_a_point else int(digits) / 2 ** len(digits)
    hidden, power = (1, exponent - bias) if exponent else (0, 1 - bias)
    return float(sign * (hidden + part) * 2.0**power)


def _infinity_for_nan(bits: str, width: int) -> float:
    value = value_of(bits, width)
    return math.copysign(math.inf, 0.5 - int(bits[0])) if math.isnan(value) else value


CHECK = Check(
    cases=value_cases,
    reference=value_of,
    forbidden_modules=("torch", "struct"),
    judge=EqualTo(
        seen_by_torch,
        Mistake(
            "Only infinities and NaN are wrong: with you they are very large numbers. What does "
            "an exponent of ones say?",
            lambda bits, width: (
                _normal(bits, width)
                if _kind(bits, width) in ("nan", "inf")
                else value_of(bits, width)
            ),
        ),
        Mistake(
            "NaN is infinite with you. By which bits does one know the two apart?",
            _infinity_for_nan,
        ),
        Mistake(
            "Infinities are NaN with you. By which bits does one know the two apart?",
            lambda bits, width: (
                math.nan if _kind(bits, width) in ("nan", "inf") else value_of(bits, width)
            ),
        ),
        Mistake(
            "Infinity has no sign with you. Which bit have all patterns in common?",
            lambda bits, width: math.inf if _kind(bits, width) == "inf" else value_of(bits, width),
        ),
        Mistake(
            "No number is negative with you. What does the first bit say?",
            lambda bits, width: abs(value_of(bits, width)),
        ),
        Mistake(
            "Only zero and the numbers beside it are wrong: they have a hidden one with you. "
            "How could zero be written then?",
            lambda bits, width: _other_subnormal(bits, width, 1, 0),
        ),
        Mistake(
            "Only zero and the numbers beside it are wrong: they have a hidden one with you, at "
            "the right power of two. How could zero be written then?",
            lambda bits, width: _other_subnormal(bits, width, 1, 1),
        ),
        Mistake(
            "Subnormal numbers are half of what they are. With your power of two, how large is "
            "the gap between the largest of them and the smallest normal number?",
            lambda bits, width: _other_subnormal(bits, width, 0, 0),
        ),
        Mistake(
            "All subnormal numbers are zero with you. What do their mantissas still say?",
            lambda bits, width: 0.0 if _kind(bits, width) == "subnormal" else value_of(bits, width),
        ),
        Mistake(
            "Normal numbers have no hidden one with you. Which number is a mantissa of zeros?",
            lambda bits, width: _other_normal(bits, width, hidden=0.0),
        ),
        Mistake(
            "All numbers are half of what they are. The exponent of 1 is a zero and then ones: "
            "which number is that?",
            lambda bits, width: _other_bias(bits, width, 1),
        ),
        Mistake(
            "Powers of two are far too large: the exponent is taken as it stands. What is "
            "subtracted from it?",
            lambda bits, width: _other_normal(bits, width, more_bias=1 - 2 ** (width - 1)),
        ),
        Mistake(
            "The mantissa is divided by the wrong power of two. How many numbers lie from 1 up to "
            "2?",
            lambda bits, width: _other_mantissa(bits, width, 2**width),
        ),
        Mistake(
            "The mantissa counts whole numbers with you. How many numbers lie from 1 up to 2?",
            lambda bits, width: _other_mantissa(bits, width, 1),
        ),
        Mistake(
            "The last bit of your exponent is in your mantissa. The sign is bit 0: at which bit "
            "does the exponent end?",
            _cut_too_early,
        ),
        Mistake(
            "The sign is among the bits of your exponent. Bit 0 is the sign: at which bit does "
            "the exponent begin?",
            lambda bits, width: value_of(bits[0] + bits, width),
        ),
        Mistake(
            "Your mantissa is read as a decimal number. Which number are the bits 10, to the base "
            "2?",
            lambda bits, width: _decimal_mantissa(bits, width, is_behind_a_point=False),
        ),
        Mistake(
            "The bits of your mantissa stand behind a decimal point. What is the first bit behind "
            "the point worth, to the base 2?",
            lambda bits, width: _decimal_mantissa(bits, width, is_behind_a_point=True),
        ),
        Mistake(
            "Every pattern is an ordinary number with you, that of zeros too. Which two exponents "
            "does the exercise set apart?",
            _normal,
        ),
        together=True,
    ),
)
