"""How far apart may two right results lie? As far as the rounding of their number format explains.

A sum of n numbers, added in any order, is off by at most n - 1 roundings of its terms (Higham 2002,
Accuracy and Stability of Numerical Algorithms, section 4.2). So two machines, or two ways to write
one computation, agree within a small multiple of n units in the last place, and by so many times
less as the terms cancel. What is exact in its format agrees in all digits.
"""

import math

# Between one and the next number: 2^-52, 2^-23, 2^-10, 2^-7.
EPSILON = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
ROUNDINGS = 4  # of one term besides those of its sum: products, exponentials, roots
LONGEST_SUM = 256  # terms of the longest sum in the cases of the exercises
CANCELLED = 4096  # a result may be so many times smaller than the terms that it is the sum of

A_DIGIT = 0.1

# What the texts of exercises promise for a `float`: nine significant digits.
PROMISED = 1e-9


def tolerance(
    number_format: str = "float64", num_terms: int = LONGEST_SUM, cancelled: float = CANCELLED
) -> float:
    """The largest relative difference that rounding explains: 9e-10 in float64.

    Args:
        number_format: In which the result was computed, by PyTorch's name.
        num_terms: Terms of its longest sum.
        cancelled: How many times larger the terms may be than their sum.

    Raises:
        ValueError: If not one digit of such a result could be relied on.
    """
    allowed = ROUNDINGS * num_terms * cancelled * EPSILON[number_format]
    if allowed >= A_DIGIT:
        raise ValueError(
            f"wanted a sum of which rounding leaves a digit, got one of {num_terms} terms in "
            f"{number_format} that cancel {cancelled:g} times: pass what the cases have"
        )
    return allowed


def is_same_number(one: float, other: float, allowed: float | None = None) -> bool:
    """Whether two numbers are equal but for rounding; whole numbers have to be equal.

    Zero is only zero, and nan equals itself.

    Args:
        one: A number.
        other: Another one.
        allowed: The relative difference; by default that of float64.
    """
    if type(one) is type(other) is int:
        return one == other
    try:
        if math.isnan(one) or math.isnan(other):
            return math.isnan(one) and math.isnan(other)
        return math.isclose(one, other, rel_tol=tolerance() if allowed is None else allowed)
    except OverflowError:  # a whole number beyond all floats
        return False
