"""Which number does a bit pattern stand for, and which number of a format is nearest?

    >>> value_of("00111110", num_exponent_bits=5)
    1.5
    >>> rounded(0.3, num_exponent_bits=5, num_mantissa_bits=2)
    0.3125

A pattern is a string of zeros and ones: sign, exponent, mantissa. The rules are those of IEEE 754:
a hidden one before the mantissa unless the exponent is all zeros, infinity and NaN if it is all
ones, and rounding to nearest, ties to the pattern whose last bit is zero.
"""

import math

from course_utils.configs import NumberFormat


def value_of(bits: str, num_exponent_bits: int) -> float:
    """The number that a bit pattern stands for.

    Raises:
        ValueError: If ``bits`` is not a string of zeros and ones with sign, exponent and mantissa.
    """
    if set(bits) - set("01") or not 0 < num_exponent_bits < len(bits) - 1:
        raise ValueError(
            f"value_of: wanted zeros and ones, a sign, {num_exponent_bits} of exponent and at "
            f"least one of mantissa, got {bits!r}"
        )
    exponent, mantissa = bits[1 : 1 + num_exponent_bits], bits[1 + num_exponent_bits :]
    sign = -1.0 if bits[0] == "1" else 1.0
    fraction = int(mantissa, 2) / 2 ** len(mantissa)
    bias = _bias(num_exponent_bits)
    if "0" not in exponent:
        return math.nan if fraction else sign * math.inf
    if "1" not in exponent:
        return sign * math.ldexp(fraction, 1 - bias)
    return sign * math.ldexp(1 + fraction, int(exponent, 2) - bias)


def rounded(x: float, num_exponent_bits: int, num_mantissa_bits: int) -> float:
    """The number of a format that is nearest to ``x``; infinite if ``x`` is too large.

    Raises:
        TypeError: If ``x`` is not a float.
        ValueError: If ``x`` is not finite, or a width is below one.
    """
    number_format = NumberFormat(
        num_exponent_bits=num_exponent_bits, num_mantissa_bits=num_mantissa_bits
    )
    if not isinstance(x, float):
        raise TypeError(f"rounded: wanted a float, got {x!r}; write {x!r}.0 for a whole number")
    if not math.isfinite(x):
        raise ValueError(f"rounded: wanted a finite number, got {x!r}")
    step = math.ldexp(1.0, _power(x, num_exponent_bits) - num_mantissa_bits)
    nearest = round(x / step) * step
    if abs(nearest) > largest(number_format):
        return math.copysign(math.inf, x)
    return math.copysign(nearest, x)


def bits_of(number: float, num_exponent_bits: int, num_mantissa_bits: int) -> str:
    """The bit pattern of a number in a format, or of its infinity."""
    sign = "1" if math.copysign(1.0, number) < 0 else "0"
    if math.isinf(number):
        return sign + "1" * num_exponent_bits + "0" * num_mantissa_bits
    power = _power(number, num_exponent_bits)
    steps = int(abs(number) / math.ldexp(1.0, power - num_mantissa_bits))
    # The steps of a normal number hold its hidden one, which carries 1 into the exponent: hence
    # the - 1. A subnormal number has no hidden one, and its exponent stays 0.
    pattern = ((power + _bias(num_exponent_bits) - 1) << num_mantissa_bits) + steps
    return sign + format(pattern, f"0{num_exponent_bits + num_mantissa_bits}b")


def neighbours(number: float, num_exponent_bits: int, num_mantissa_bits: int) -> tuple[float, ...]:
    """The numbers of a format next below and next above a finite one.

    Patterns of one sign, read as integers, are in the order of the numbers they stand for.
    """
    pattern = bits_of(number, num_exponent_bits, num_mantissa_bits)
    sign, width = pattern[0], len(pattern) - 1

    def at(count: int) -> float:
        if count < 0:  # on the other side of zero
            return -value_of(sign + format(-count, f"0{width}b"), num_exponent_bits)
        return value_of(sign + format(count, f"0{width}b"), num_exponent_bits)

    count = int(pattern[1:], 2)
    return tuple(sorted((at(count - 1), at(count + 1))))


def stops_at(term: float, num_mantissa_bits: int) -> float:
    """Where a running sum of equal terms stops: the first power of two that a term cannot change.

    There the step is at least twice the term; a tie rounds to the power itself.

    Raises:
        ValueError: If the term is not above zero, or infinite.
    """
    if not 0 < term < math.inf:
        raise ValueError(f"stops_at: wanted a term above zero, got {term!r}")
    return 2.0 ** (num_mantissa_bits + 1 + math.ceil(math.log2(term)))


def largest(number_format: NumberFormat) -> float:
    """The largest finite number."""
    step = 2.0**-number_format.num_mantissa_bits
    power = _bias(number_format.num_exponent_bits)
    if number_format.has_infinity:
        return (2 - step) * 2.0**power
    return (2 - 2 * step) * 2.0 ** (power + 1)  # the last pattern is NaN


def smallest_normal(number_format: NumberFormat) -> float:
    """The smallest number above zero with a full mantissa."""
    return 2.0 ** (1 - _bias(number_format.num_exponent_bits))


def smallest(number_format: NumberFormat) -> float:
    """The smallest number above zero, subnormal with a single bit of mantissa left."""
    return smallest_normal(number_format) * 2.0**-number_format.num_mantissa_bits


def _bias(num_exponent_bits: int) -> int:
    return int(2 ** (num_exponent_bits - 1)) - 1


def _power(x: float, num_exponent_bits: int) -> int:
    """Exponent of the power of two at or below ``abs(x)``, at least the format's lowest."""
    lowest = 1 - _bias(num_exponent_bits)
    return max(math.frexp(x)[1] - 1, lowest) if x else lowest  # frexp's mantissa is below one
