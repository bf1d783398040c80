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


NORMAL = "sign * (1 + m / 2**width) * 2.0 ** (e - bias)"

VALUE = AnswerBank(
    function="value_of",
    wrong=[
        Wrong(
            "all alike",
            _value(special=NORMAL, subnormal=NORMAL),
            "Which two exponents does the exercise set apart?",
        ),
        Wrong("no infinity", _value(special=NORMAL), "What does an exponent of ones say?"),
        Wrong("no NaN", _value(special="sign * math.inf"), "NaN is infinite with you."),
        Wrong("all are NaN", _value(special="math.nan"), "Infinities are NaN with you."),
        Wrong(
            "infinity without a sign",
            _value(special="math.inf if m == 0 else math.nan"),
            "Infinity has no sign with you.",
        ),
        Wrong("no sign", _value(sign="1"), "What does the first bit say?"),
        Wrong(
            "a hidden one beside zero",
            _value(subnormal=NORMAL),
            "Only zero and the numbers beside it are wrong: they have a hidden one with you. How",
        ),
        Wrong(
            "a hidden one at the right power",
            _value(subnormal="sign * (1 + m / 2**width) * 2.0 ** (1 - bias)"),
            "at the right power of two.",
        ),
        Wrong(
            "subnormal numbers at -bias",
            _value(subnormal="sign * m / 2**width * 2.0 ** -bias"),
            "the gap between the largest of them and the smallest normal number?",
        ),
        Wrong(
            "no subnormal numbers",
            _value(subnormal="0.0"),
            "All subnormal numbers are zero with you.",
        ),
        Wrong(
            "no hidden one",
            _value(normal="sign * m / 2**width * 2.0 ** (e - bias)"),
            "Normal numbers have no hidden one with you.",
        ),
        Wrong(
            "a bias one too large",
            _value(bias="2 ** (num_exponent_bits - 1)"),
            "All numbers are half of what they are.",
        ),
        Wrong(
            "no bias",
            _value(normal="sign * (1 + m / 2**width) * 2.0**e"),
            "What is subtracted from it?",
        ),
        Wrong(
            "the mantissa over the exponent's bits",
            _value(
                subnormal="sign * m / 2**num_exponent_bits * 2.0 ** (1 - bias)",
                normal="sign * (1 + m / 2**num_exponent_bits) * 2.0 ** (e - bias)",
            ),
            "The mantissa is divided by the wrong power of two.",
        ),
        Wrong(
            "the mantissa as a whole number",
            _value(
                subnormal="sign * m * 2.0 ** (1 - bias)",
                normal="sign * (1 + m) * 2.0 ** (e - bias)",
            ),
            "The mantissa counts whole numbers with you.",
        ),
        Wrong(
            "the exponent one bit short",
            _value().replace("1 + num_exponent_bits", "num_exponent_bits"),
            "at which bit does the exponent end?",
        ),
        Wrong(
            "the sign among the exponent",
            _value().replace("bits[1 : 1 + num", "bits[: num").replace("bits[1 + num", "bits[num"),
            "at which bit does the exponent begin?",
        ),
        Wrong(
            "a decimal mantissa",
            _value().replace("int(mantissa, 2)", "int(mantissa)").replace("m == 0", "not m"),
            "Which number are the bits 10, to the base 2?",
        ),
        Wrong(
            "a mantissa behind a decimal point",
            _value(
                subnormal="sign * float('0.' + mantissa) * 2.0 ** (1 - bias)",
                normal="sign * (1 + float('0.' + mantissa)) * 2.0 ** (e - bias)",
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
        Wrong("cut off", _rounded(whole="int(x / spacing)"), "You cut digits off."),
        Wrong("down", _rounded(whole="math.floor(x / spacing)"), "You always go down"),
        Wrong("up", _rounded(whole="math.ceil(x / spacing)"), "You always go up."),
        Wrong(
            "half away from zero",
            _rounded(whole="math.copysign(math.floor(abs(x) / spacing + 0.5), x)"),
            "goes away from zero with you.",
        ),
        Wrong(
            "half up",
            _rounded(whole="math.floor(x / spacing + 0.5)"),
            "goes up with you.",
        ),
        Wrong(
            "infinite from two to the bias on",
            _rounded(overflow="abs(nearest) >= 2.0**bias"),
            "from 2 to the power of the bias on",
        ),
        Wrong(
            "rounded to decimal digits",
            """
            def rounded(x, num_exponent_bits, num_mantissa_bits):
                return round(x, num_mantissa_bits)
            """,
            "Nothing has changed but decimal digits",
        ),
        Wrong("never infinite", _rounded(overflow="False"), "No number of yours is infinite."),
        Wrong(
            "one exponent more",
            _rounded(overflow="abs(nearest) > 2 * largest"),
            "twice as large with you as they can be.",
        ),
        Wrong(
            "saturated",
            _rounded(beyond="math.copysign(largest, x)"),
            "become the largest with you.",
        ),
        Wrong(
            "infinite above the largest",
            _rounded(overflow="abs(x) > largest"),
            "Where is the middle between it and the power of two that follows?",
        ),
        Wrong("infinity without a sign", _rounded(beyond="math.inf"), "Infinity has no sign"),
        Wrong(
            "no subnormal numbers",
            _rounded(whole="(abs(x) >= 2.0 ** (1 - bias)) * round(x / spacing)"),
            "Small numbers are zero with you before they have to be.",
        ),
        Wrong(
            "the spacing goes on shrinking",
            _rounded(lowest="-10_000", power="math.frexp(x)[1] - 1 if x else 0"),
            "your spacing goes on shrinking.",
        ),
        Wrong("subnormal numbers at -bias", _rounded(lowest="-bias"), "-bias or one more?"),
        Wrong(
            "frexp taken as it is",
            _rounded(power="math.frexp(x)[1]"),
            "The first value of math.frexp is between a half and one",
        ),
        Wrong(
            "one bit less",
            _rounded(whole="round(x / (2 * spacing)) * 2"),
            "down to the smallest number.",
        ),
        Wrong(
            "one bit more",
            _rounded(whole="round(x / spacing * 2) / 2"),
            "Spacings are half as large with you as they are.",
        ),
        Wrong(
            "no sign",
            _rounded(whole="round(abs(x) / spacing)", beyond="math.inf"),
            "No number is negative with you.",
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
            "where the spacing is the term",
            _stops("m + math.ceil(math.log2(term))"),
            "Your sum stops where the spacing is as large as the term.",
        ),
        Wrong("not a power of two", _stops("m + 1", "term * "), "too small by a half or less."),
        Wrong("the term's bits", _stops("m", "term * "), "That is the term and all its bits."),
        Wrong(
            "floor",
            _stops("m + 1 + math.floor(math.log2(term))"),
            "At your stop the term is still more than half a spacing",
        ),
        Wrong(
            "no tie",
            _stops("m + 2 + math.floor(math.log2(term))"),
            "to which side does the tie go?",
        ),
        Wrong(
            "one too late",
            _stops("m + 2 + math.ceil(math.log2(term))"),
            "one power of two too late.",
        ),
        Wrong(
            "to the nearer power",
            _stops("m + 1 + round(math.log2(term))"),
            "you go to the nearer of the two.",
        ),
        Wrong(
            "the power itself",
            "import math\n\ndef stops_at(term, m):\n    return m + 1 + math.ceil(math.log2(term))",
            "That is the power, not the number.",
        ),
        Wrong(
            "one term short",
            _stops("m + 1 + math.ceil(math.log2(term))", "-term + "),
            "You are one term short",
        ),
        Wrong("without the term", _stops("m + 1"), "The same for every term of a format."),
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
