"""Kinds of cases that the exercises of unit 07 have for every seed."""

import math

from autograder.observers.u07.fp32_master_weights import idle_index
from course_utils.formulas.number_formats import value_of


def _in_spacings(case: dict[str, float]) -> float:
    """The absolute value of a normal number, in spacings of its format."""
    fraction, _ = math.frexp(abs(case["x"]))
    return math.ldexp(fraction, int(case["num_mantissa_bits"]) + 1)


FEATURES = {
    "u07-value": {
        **{
            f"{width} bits": lambda case, width=width: len(case["bits"]) == width
            for width in (8, 16, 19, 32)
        },
        "4 and 3 bits": lambda case: len(case["bits"]) == 8 and case["num_exponent_bits"] == 4,
        "a format that no machine has": lambda case: case["num_exponent_bits"] in (3, 6, 7),
        "bf16": lambda case: len(case["bits"]) == 16 and case["num_exponent_bits"] == 8,
        "fp16": lambda case: len(case["bits"]) == 16 and case["num_exponent_bits"] == 5,
        "zero": lambda case: "1" not in case["bits"],
        "zero with a sign": lambda case: case["bits"] == "1" + "0" * (len(case["bits"]) - 1),
        "subnormal": lambda case: (
            "1" not in case["bits"][1 : 1 + case["num_exponent_bits"]]
            and "1" in case["bits"][1 + case["num_exponent_bits"] :]
        ),
        "infinity": lambda case: value_of(**case) == math.inf,
        "infinity below zero": lambda case: value_of(**case) == -math.inf,
        "NaN": lambda case: math.isnan(value_of(**case)),
        "negative": lambda case: -math.inf < value_of(**case) < 0,
    },
    "u07-master": {
        "one number": lambda case: case["num_numbers"] == 1,
        "one step": lambda case: case["num_steps"] == 1,
        "many weights": lambda case: case["num_weights"] >= 6,
        **{
            f"the {place} without gradient": lambda case, at=at: idle_index(case) == at
            for at, place in enumerate(("first", "second", "third"))
        },
    },
    "u07-scaler": {
        "an overflow first": lambda case: case["steps"][0] == "inf",
        "NaN": lambda case: "nan" in case["steps"],
        "several in a row": lambda case: "inf inf inf" in " ".join(case["steps"]),
        "one of two": lambda case: "inf in the first" in case["steps"],
        "by growing": lambda case: "large" in case["steps"] and "inf" not in case["steps"],
        "every step grows": lambda case: case["growth_interval"] == 1,
        "gradients with an infinite sum": lambda case: "huge" in case["steps"],
        "infinities of both signs": lambda case: "opposite" in case["steps"],
        "all numbers infinite": lambda case: "all" in case["steps"],
        "a small scale": lambda case: case["scale"] == 4 and case["steps"].count("inf") == 3,
        "no gradient at all": lambda case: "nothing" in case["steps"],
        "no gradient": lambda case: case["scenario"] == "one without gradient",
    },
    "u07-stops": {
        **{
            f"{m} bits": lambda case, m=m: case["num_mantissa_bits"] == m
            for m in (2, 7, 10, 23, 52)
        },
        "a power of two": lambda case: math.frexp(case["term"])[0] == 0.5,
        "between powers of two": lambda case: math.frexp(case["term"])[0] != 0.5,
        "below one": lambda case: case["term"] < 1,
        "above one": lambda case: case["term"] > 1,
    },
    "u07-round": {
        **{
            f"{e} and {m} bits": lambda case, e=e, m=m: (
                (case["num_exponent_bits"], case["num_mantissa_bits"]) == (e, m)
            )
            for e, m in ((5, 2), (5, 10), (8, 7), (8, 10), (8, 23))
        },
        "zero": lambda case: case["x"] == 0,
        "negative": lambda case: case["x"] < 0,
        "beyond the largest": lambda case: case["x"] >= 2.0**2 ** (case["num_exponent_bits"] - 1),
        "subnormal": lambda case: 0 < case["x"] < 2.0 ** (2 - 2 ** (case["num_exponent_bits"] - 1)),
        "a tie": lambda case: _in_spacings(case) % 1 == 0.5,
        "a tie below zero": lambda case: case["x"] < 0 and _in_spacings(case) % 1 == 0.5,
        "exact": lambda case: case["x"] != 0 and _in_spacings(case) % 1 == 0,
    },
    "u07-int8": {
        "a row of zeros": lambda case: any(not any(row) for row in case["x"]),
        "negative and largest": lambda c: any(-min(row) > max(row) for row in c["x"]),
        "several rows": lambda case: len(case["x"]) > 1,
        "three rows": lambda case: len(case["x"]) == 3,
        "tiny numbers": lambda case: any(0 < max(map(abs, row)) < 1e-8 for row in case["x"]),
        "ties of both signs": lambda case: (
            {0.5, -2.5} < set(case["x"][-1]) and 127.0 in case["x"][-1]
        ),
    },
    "u07-stochastic": {
        "held exactly": lambda case: math.frexp(case["x"])[0] == -0.5,
        "in the middle": lambda case: math.frexp(case["x"])[0] == (1.0 + 2**-8) / 2,
        "above zero": lambda case: case["x"] > 0,
        "below zero": lambda case: case["x"] < 0,
        "zero": lambda case: case["x"] == 0,
    },
    "u07-autocast-bytes": {
        "one call on data": lambda c: c["num_calls"] == 1 and not c["wants_input_grad"],
        "one call behind others": lambda c: c["num_calls"] == 1 and c["wants_input_grad"],
        "several on data": lambda c: c["num_calls"] > 1 and not c["wants_input_grad"],
        "several behind others": lambda c: c["num_calls"] > 1 and c["wants_input_grad"],
        "more than a float holds": lambda c: 2 * c["hidden_size"] * c["ffn_size"] > 2**53,
    },
}
