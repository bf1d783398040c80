"""Answer banks of unit 07, first half: number formats."""

import math

from course_utils.formulas.number_formats import value_of
from tests.answer_bank import AnswerBank, Wrong


def _value(
    special: str = "sign * math.inf if m == 0 else math.nan",
    subnormal: str = "sign * m / 2**width * 2.0 ** (1 - bias)",
    normal: str = "sign * (1 + m / 2**width) * 2.0 ** (e - bias)",
    bias: str = "2 ** (num_exponent_bits - 1) - 1",
    sign: str = "(-1) ** int(bits[0])",
) -> str:
    return f"""
    import math

    def value_of(bits, num_exponent_bits):
        sign = {sign}
        exponent, mantissa = bits[1 : 1 + num_exponent_bits], bits[1 + num_exponent_bits :]
        e, m, width = int(exponent, 2), int(mantissa, 2), len(mantissa)
        bias = {bias}
        if e == 2**num_exponent_bits - 1:
            return {special}
        if e == 0:
            return {subnormal}
        return {normal}
    """


VALUE = AnswerBank(
    function="value_of",
    wrong=[
        Wrong("all are special", _value(special="sign * math.inf"), "Your NaN is an infinity."),
        Wrong(
            "the largest exponent of fp16 alone",
            _value().replace("e == 2**num_exponent_bits - 1", "exponent == '11111'"),
            "you return very large numbers.",
        ),
        Wrong(
            "subnormal numbers as zero but for the sign",
            _value(subnormal="sign * 0.0"),
            "Your subnormal numbers are all zero.",
        ),
        Wrong("NaN as text", _value(special="'nan' if m else sign * math.inf"), "What type"),
        Wrong(
            "bits behind a decimal point",
            _value(
                subnormal="sign * float('0.' + mantissa) * 2.0 ** (1 - bias)",
                normal="sign * float('1.' + mantissa) * 2.0 ** (e - bias)",
            ),
            "behind a decimal point.",
        ),
        Wrong(
            "looked up in torch",
            """
            import torch

            def value_of(bits, num_exponent_bits):
                pattern = torch.tensor([int(bits, 2)], dtype=torch.uint16)
                kind = torch.float16 if num_exponent_bits == 5 else torch.bfloat16
                return pattern.view(kind).item()
            """,
            "How would you work it out with code of your own?",
        ),
    ],
    right=[
        _value(),
        """
        def value_of(bits, num_exponent_bits):
            exponent = bits[1 : num_exponent_bits + 1]
            total = 1.0 if "1" in exponent else 0.0
            part = 1.0
            for bit in bits[num_exponent_bits + 1 :]:
                part /= 2
                total += part * (bit == "1")
            if "0" not in exponent:
                total = float("inf") if total == 1 else float("nan")
            power = max(int(exponent, 2), 1) - 2 ** (num_exponent_bits - 1) + 1
            return (total if bits[0] == "0" else -total) * 2.0**power
        """,
    ],
    features={
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
)


def _rounded(
    whole: str = "round(x / spacing)",
    power: str = "math.frexp(x)[1] - 1",
    lowest: str = "1 - bias",
    overflow: str = "abs(nearest) > largest",
    beyond: str = "math.copysign(math.inf, x)",
) -> str:
    return f"""
    import math

    def rounded(x, num_exponent_bits, num_mantissa_bits):
        bias = 2 ** (num_exponent_bits - 1) - 1
        largest = (2 - 2.0**-num_mantissa_bits) * 2.0**bias
        power = max({power}, {lowest})
        spacing = 2.0 ** (power - num_mantissa_bits)
        nearest = {whole} * spacing
        return {beyond} if {overflow} else nearest
    """


ROUNDED = AnswerBank(
    function="rounded",
    wrong=[
        Wrong(
            "half away from zero in another way",
            _rounded(whole="int(x / spacing + math.copysign(0.5, x))"),
            "you round them away from zero.",
        ),
        Wrong(
            "rounded to decimal digits",
            """
            def rounded(x, num_exponent_bits, num_mantissa_bits):
                return round(x, num_mantissa_bits)
            """,
            "You round to decimal digits",
        ),
        Wrong(
            "one exponent more",
            _rounded(overflow="abs(nearest) > 2 * largest"),
            "twice what the format can hold.",
        ),
        Wrong(
            "the size of x too large",
            _rounded(overflow="abs(x) >= 2 * 2.0**bias"),
            "Which number should you test",
        ),
        Wrong(
            "no subnormal numbers",
            _rounded(whole="(abs(x) >= 2.0 ** (1 - bias)) * round(x / spacing)"),
            "You turn small numbers into zero too early.",
        ),
        Wrong(
            "rounded by torch",
            """
            import torch

            def rounded(x, num_exponent_bits, num_mantissa_bits):
                kind = torch.float16 if num_exponent_bits == 5 else torch.bfloat16
                return torch.tensor(x).to(kind).item()
            """,
            "How would you work it out with code of your own?",
        ),
    ],
    right=[
        _rounded(),
        """
        import math
        from fractions import Fraction

        def rounded(x, num_exponent_bits, num_mantissa_bits):
            bias = 2 ** (num_exponent_bits - 1) - 1
            size = Fraction(abs(x))
            power = 1 - bias
            while size >= Fraction(2) ** (power + 1):
                power += 1
            spacing = Fraction(2) ** (power - num_mantissa_bits)
            count, rest = divmod(size, spacing)
            if 2 * rest > spacing or (2 * rest == spacing and count % 2):
                count += 1
            size = count * spacing
            result = math.inf if size >= 2 ** (bias + 1) else float(size)
            return math.copysign(result, x)
        """,
    ],
    features={
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
)


def _in_spacings(case: dict[str, float]) -> float:
    """The absolute value of a normal number, in spacings of its format."""
    fraction, _ = math.frexp(abs(case["x"]))
    return math.ldexp(fraction, int(case["num_mantissa_bits"]) + 1)


def _stops(power: str, factor: str = "") -> str:
    return f"""
    import math

    def stops_at(term, num_mantissa_bits):
        m = num_mantissa_bits
        return {factor}2.0 ** ({power})
    """


STOPS_AT = AnswerBank(
    function="stops_at",
    wrong=[
        Wrong(
            "the exponent of frexp",
            _stops("m + 1 + math.frexp(term)[1]"),
            "which way does the tie go?",
        ),
        Wrong(
            "the course's own",
            """
            from course_utils.formulas import number_formats

            def stops_at(term, num_mantissa_bits):
                return number_formats.stops_at(term, num_mantissa_bits)
            """,
            "How would you work it out with code of your own?",
        ),
    ],
    right=[
        _stops("m + 1 + math.ceil(math.log2(term))"),
        """
        def stops_at(term, num_mantissa_bits):
            power = 2.0**-400
            while power / 2**num_mantissa_bits < 2 * term:
                power *= 2
            return power
        """,
    ],
    features={
        **{
            f"{m} bits": lambda case, m=m: case["num_mantissa_bits"] == m
            for m in (2, 7, 10, 23, 52)
        },
        "a power of two": lambda case: math.frexp(case["term"])[0] == 0.5,
        "between powers of two": lambda case: math.frexp(case["term"])[0] != 0.5,
        "below one": lambda case: case["term"] < 1,
        "above one": lambda case: case["term"] > 1,
    },
)

BANKS = {"u07-value": VALUE, "u07-round": ROUNDED, "u07-stops": STOPS_AT}
