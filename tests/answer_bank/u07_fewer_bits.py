"""Answer banks of unit 07, extras on number formats: int8 and stochastic rounding."""

from tests.answer_bank import AnswerBank, Wrong


def _quantised(
    scales: str = "x.abs().amax(-1, keepdim=True) / 127",
    zeros: str = "torch.where(scales == 0, torch.ones_like(scales), scales)",
    integers: str = "(x / scales).round()",
    result: str = "integers.to(torch.int8), scales",
) -> str:
    return f"""
    import torch

    def quantised(x):
        scales = {scales}
        scales = {zeros}
        integers = {integers}
        return {result}
    """


INT8 = AnswerBank(
    function="quantised",
    wrong=[
        Wrong(
            "one scale for all",
            _quantised(scales="x.abs().amax().reshape(1, 1) / 127"),
            "Over which dimension do you take the largest?",
        ),
        Wrong(
            "a scale for each column",
            _quantised(scales="x.abs().amax(0, keepdim=True) / 127"),
            "There is not one scale for each row.",
        ),
        Wrong(
            "one number as the scale",
            _quantised(scales="x.abs().max() / 127"),
            "Your scale is one number for all rows.",
        ),
        Wrong(
            "scales without a column",
            _quantised(result="integers.to(torch.int8), scales.squeeze(-1)"),
            "and no column of them.",
        ),
        Wrong(
            "x in place",
            _quantised(integers="x.div_(scales).round()"),
            "Your function changes x itself.",
        ),
        Wrong(
            "half up",
            _quantised(integers="(x / scales + 0.5).floor()"),
            "0.5 goes up with you.",
        ),
        Wrong(
            "half away from zero",
            _quantised(integers="x.sign() * (x.abs() / scales + 0.5).floor()"),
            "0.5 goes away from zero with you.",
        ),
        Wrong(
            "at least a tiny scale",
            _quantised(zeros="scales.clamp(min=1e-8)"),
            "A row of zeros has a tiny scale with you. Which",
        ),
        Wrong(
            "at least a tiny size",
            _quantised(scales="x.abs().amax(-1, keepdim=True).clamp(min=1e-8) / 127"),
            "a 127th of your smallest size.",
        ),
        Wrong("floats", _quantised(result="integers, scales"), "they are not stored as int8."),
        Wrong("zero over zero", _quantised(zeros="scales"), "Rows of zeros have a scale of zero."),
        Wrong("cut off", _quantised(integers="x / scales"), "Digits are cut off."),
        Wrong(
            "no absolute value",
            _quantised(scales="x.amax(-1, keepdim=True) / 127"),
            "Whose size decides?",
        ),
        Wrong(
            "over 128",
            _quantised(
                scales="x.abs().amax(-1, keepdim=True) / 128",
                integers="(x / scales).round().to(torch.int16)",
                result="integers.clamp(-128, 127).to(torch.int8), scales",
            ),
            "The largest becomes 128 with you",
        ),
        Wrong(
            "over 255",
            _quantised(
                scales="x.abs().amax(-1, keepdim=True) / 255",
                result="integers.clamp(-128, 127).to(torch.int8), scales",
            ),
            "How many are there on one side of zero?",
        ),
        Wrong(
            "upside down",
            _quantised(
                scales="127 / x.abs().amax(-1, keepdim=True)",
                zeros="torch.where(scales.isinf(), torch.ones_like(scales), scales)",
                integers="(x * scales).round()",
            ),
            "Your scales are upside down.",
        ),
    ],
    right=[
        _quantised(zeros="scales + (scales == 0)"),
        """
        import torch

        def quantised(x):
            rows, scales = [], []
            for row in x.tolist():
                scale = max(abs(number) for number in row) / 127 or 1.0
                scales.append([scale])
                rows.append([round(number / scale) for number in row])
            return torch.tensor(rows, dtype=torch.int8), torch.tensor(scales)
        """,
    ],
    features={
        "a row of zeros": lambda case: any(not any(row) for row in case["x"]),
        "negative and largest": lambda c: any(-min(row) > max(row) for row in c["x"]),
        "several rows": lambda case: len(case["x"]) > 1,
        "ties of both signs": lambda case: (
            {0.5, -2.5} < set(case["x"][-1]) and 127.0 in case["x"][-1]
        ),
    },
)


def _chance(bits: str, result: str = "cut.view(torch.float32).bfloat16()") -> str:
    return f"""
    import torch

    def rounded_by_chance(x, random):
        bits = x.view(torch.int32)
        rest = bits & 0xFFFF
        low = bits - rest
        cut = {bits}
        return {result}
    """


STOCHASTIC = AnswerBank(
    function="rounded_by_chance",
    wrong=[
        Wrong(
            "fp32",
            _chance("(bits + random) & ~0xFFFF", "cut.view(torch.float32)"),
            "they are not stored as bf16.",
        ),
        Wrong("the nearest", _chance("bits"), "All random numbers give the same, the nearest."),
        Wrong("cut off", _chance("low"), "with the last bits cut off."),
        Wrong(
            "heads or tails",
            _chance("torch.where(rest == 0, bits, low + 0x10000 * (random < 0x8000).int())"),
            "Both neighbours are equally likely with you.",
        ),
        Wrong(
            "the wrong way round",
            _chance("torch.where(rest == 0, bits, low + 0x10000 * (random >= rest).int())"),
            "The farther neighbour is the more likely one with you.",
        ),
        Wrong("rounded twice", _chance("bits + random"), "and then round to the nearest."),
        Wrong(
            "one too often",
            _chance("low + 0x10000 * (random <= rest).int()"),
            "off by a 65,536th of a spacing.",
        ),
        Wrong(
            "int64",
            _chance("(bits.long() + random) & -0x10000"),
            "Which line makes int32 to int64?",
        ),
        Wrong(
            "random numbers of its own",
            _chance("bits - rest + 0x10000 * (torch.randint(0x10000, x.shape) < rest).int()"),
            "Whose random numbers does your function use?",
        ),
        Wrong("the lower bits", _chance("(bits + random) & 0xFFFF"), "Which ones does bf16 keep?"),
        Wrong(
            "added to x itself",
            _chance("bits", "(x + random).bfloat16()"),
            "as so many ones.",
        ),
        Wrong(
            "subtracted",
            _chance("(bits - random) & ~0xFFFF"),
            "What has to carry into the upper bits?",
        ),
        Wrong(
            "the next number above",
            """
            import torch

            def rounded_by_chance(x, random):
                rest = x.view(torch.int32) & 0xFFFF
                low = (x.view(torch.int32) - rest).view(torch.float32).bfloat16()
                high = torch.nextafter(low, torch.tensor(float("inf"), dtype=torch.bfloat16))
                return torch.where(random < rest, high, low)
            """,
            "Right above zero, wrong below.",
        ),
    ],
    right=[
        _chance("low + 0x10000 * (random < rest).int()"),
        """
        import torch

        def rounded_by_chance(x, random):
            bits = (x.view(torch.int32) + random) >> 16
            return bits.to(torch.int16).view(torch.bfloat16)
        """,
    ],
    features={
        "held exactly": lambda case: case["x"] == -1.0,
        "in the middle": lambda case: case["x"] == 1.0 + 2**-8,
        "above zero": lambda case: case["x"] > 0,
        "below zero": lambda case: case["x"] < 0,
        "zero": lambda case: case["x"] == 0,
    },
)

BANKS = {"u07-int8": INT8, "u07-stochastic": STOCHASTIC}
