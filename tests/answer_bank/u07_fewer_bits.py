"""Answer banks of unit 07, extras on number formats: int8 and stochastic rounding."""

import math

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
            "Your scale is one number for all rows.",
        ),
        Wrong(
            "integers alone",
            _quantised(result="integers.to(torch.int8)"),
            "What does the exercise ask your function to return?",
        ),
        Wrong(
            "scales first",
            _quantised(result="scales, integers.to(torch.int8)"),
            "What does the exercise ask your function to return?",
        ),
        Wrong(
            "numbers as scales",
            _quantised(result="integers.to(torch.int8), scales.flatten().tolist()"),
            "What does the exercise ask your function to return?",
        ),
        Wrong("int32", _quantised(result="integers.int(), scales"), "are not stored as int8."),
        Wrong("fp64", _quantised(result="integers.char(), scales.double()"), "not stored as fp32."),
        Wrong(
            "at least another tiny scale",
            _quantised(zeros="scales.clamp(min=1e-5)"),
            "Your rows of zeros have a tiny scale.",
        ),
        Wrong(
            "x in place",
            _quantised(integers="x.div_(scales).round()"),
            "Your function changes x itself.",
        ),
        Wrong(
            "over 128, clamped",
            _quantised(
                scales="x.abs().amax(-1, keepdim=True) / 128",
                integers="(x / scales).round().to(torch.int16)",
                result="integers.clamp(-128, 127).to(torch.int8), scales",
            ),
            "Your largest integer would be 128",
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
        "three rows": lambda case: len(case["x"]) == 3,
        "tiny numbers": lambda case: any(0 < max(map(abs, row)) < 1e-8 for row in case["x"]),
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
            "not stored as bf16.",
        ),
        Wrong(
            "int64",
            _chance("(bits.long() + random) & -0x10000"),
            "Which line turns int32 into int64?",
        ),
        Wrong(
            "random numbers of its own",
            _chance("bits - rest + 0x10000 * (torch.randint(0x10000, x.shape) < rest).int()"),
            "Whose random numbers does your function use?",
        ),
        Wrong(
            "heads or tails",
            _chance("torch.where(rest == 0, bits, low + 0x10000 * (random < 0x8000).int())"),
            "Both neighbors are equally likely in your results.",
        ),
        Wrong(
            "one too often",
            _chance("low + 0x10000 * (random <= rest).int()"),
            "off by a 65,536th of a spacing.",
        ),
        Wrong(
            "added in place",
            """
            import torch

            def rounded_by_chance(x, random):
                bits = x.view(torch.int32)
                bits += random
                return ((bits >> 16) << 16).view(torch.float32).bfloat16()
            """,
            "Which of your operations writes into a tensor that came in?",
        ),
        Wrong(
            "flat",
            _chance("(bits + random) & ~0xFFFF", "cut.view(torch.float32).bfloat16().flatten()"),
            "What does the exercise ask your function to return?",
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
        "held exactly": lambda case: math.frexp(case["x"])[0] == -0.5,
        "in the middle": lambda case: math.frexp(case["x"])[0] == (1.0 + 2**-8) / 2,
        "above zero": lambda case: case["x"] > 0,
        "below zero": lambda case: case["x"] < 0,
        "zero": lambda case: case["x"] == 0,
    },
)

BANKS = {"u07-int8": INT8, "u07-stochastic": STOCHASTIC}
