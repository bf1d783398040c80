"""Check of the number that a pattern of bits stands for, measured by torch."""

import itertools
import random
from collections.abc import Iterator

import torch

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.exercises.model_answers import mistakes_of

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


CHECK = Check(
    cases=value_cases,
    judge=EqualTo(seen_by_torch, *mistakes_of("u07-value"), together=True),
    fallback="course_utils.formulas.number_formats.value_of",
    answers=("course_utils.instruments.bit_patterns.numbers_of",),
    forbidden_modules=("torch", "struct"),
)
