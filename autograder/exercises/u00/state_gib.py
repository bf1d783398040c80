"""Check of the GiB of a model's training state."""

import random
from fractions import Fraction

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.checking.precision import PROMISED
from autograder.exercises.model_answers import Edit, edited


def state_cases(seed: int) -> list[Case]:
    """Models of a million to a trillion parameters, at each byte count that the course meets."""
    rng = random.Random(seed)
    models = [rng.randint(10**digits // 10, 10**digits) for digits in (6, 8, 10, 12)]
    return [
        {"num_params": 2**30, "bytes_per_param": 2},
        {"num_params": rng.randint(2, 90) * 10**9, "bytes_per_param": 16},
        *({"num_params": n, "bytes_per_param": size} for n in models for size in (1, 2, 4, 16, 18)),
    ]


def exact_state_gib(num_params: int, bytes_per_param: int) -> float:
    """The number in exact fractions: three divisions by 1,024."""
    kib = Fraction(num_params * bytes_per_param, 1024)
    return float(kib / 1024 / 1024)


BYTES, GIB = "num_params * bytes_per_param", "1024**3"
QUOTIENT = f"num_bytes / {GIB}"
ROUNDED_GB = "You convert through GB with a rounded factor. Exactly how many bytes are in a GiB?"
WHOLE = "Your answer is a whole number. How many GiB does a model of a million parameters take?"
PLACES = (
    "one decimal",
    "two decimals",
    "three decimals",
    "four decimals",
    "five decimals",
    "six decimals",
)
EDITS = (
    Edit("That is the number of GB, 10**9 bytes each. How many bytes are in a GiB?", {GIB: "1e9"}),
    Edit("That is the number of bytes. How do you get from bytes to GiB?", {QUOTIENT: "num_bytes"}),
    Edit("That is the number of KiB. How many KiB are in a GiB?", {GIB: "1024"}),
    Edit("That is the number of MiB. How many MiB are in a GiB?", {GIB: "1024**2"}),
    Edit(
        "That is the number of TiB. Which division by 1,024 is one too many?",
        {GIB: "1024**4"},
    ),
    Edit("That is the number of bits. How many bits are in a byte?", {BYTES: f"8 * {BYTES}"}),
    Edit("bytes_per_param is already in bytes. Why divide by 8?", {BYTES: f"{BYTES} / 8"}),
    Edit(
        "Your answer does not change with bytes_per_param. How much memory does each parameter "
        "take?",
        {BYTES: "num_params"},
    ),
    *(
        Edit(
            f"You assume {size} bytes for every parameter. Is it always that many?",
            {BYTES: f"num_params * {size}"},
        )
        for size in (2, 4, 16)
    ),
    Edit(
        "You divide by bytes_per_param. If each parameter takes more bytes, does the model take "
        "more memory or less?",
        {BYTES: "num_params / bytes_per_param"},
    ),
    Edit(
        "You multiply by the bytes in a GiB. Is the number of GiB larger than the number of "
        "bytes, or smaller?",
        {QUOTIENT: f"num_bytes * {GIB}"},
    ),
    *(Edit(ROUNDED_GB, {GIB: way}) for way in ("1e9 / 1.074", "1e9 * 0.931", "1e9 * 0.93")),
    *(
        Edit("Your divisor mixes 1,000 and 1,024. Which of them takes KiB to MiB?", {GIB: way})
        for way in ("(1000 * 1024**2)", "(1000**2 * 1024)")
    ),
    *(
        Edit(
            "You get more GiB than GB. If a GiB has more bytes than a GB, should you need more "
            "of them, or fewer?",
            {GIB: way},
        )
        for way in ("1e9 * 1.074", "1e9 * 1.073741824", "1e9 / 0.931")
    ),
    *(
        Edit(
            f"You divide by {number:,}, which is what Python makes of {words}. How do you write "
            "a power in Python?",
            {GIB: f"{number}"},
        )
        for words, number in (("2 ^ 30", 28), ("1024 ^ 3", 1027), ("1024 * 3", 3072))
    ),
    *(
        Edit(
            f"Your answer is rounded to {words}. What is left of the answer for a model of a "
            "million parameters?",
            {QUOTIENT: f"round({QUOTIENT}, {n})"},
        )
        for n, words in enumerate(PLACES, start=1)
    ),
    Edit(
        "Your division drops the remainder. What happens to half a GiB?",
        {QUOTIENT: f"num_bytes // {GIB}"},
    ),
    *(
        Edit(
            "One of your divisions drops its remainder. Which one?",
            {QUOTIENT: f"num_bytes // {unit} * {unit} / {GIB}"},
        )
        for unit in ("1024", "1024**2")
    ),
    Edit(WHOLE, {QUOTIENT: f"round({QUOTIENT})"}),
    Edit(WHOLE, {QUOTIENT: f"-(-num_bytes // {GIB})"}),
)

CHECK = Check(
    cases=state_cases,
    judge=EqualTo(exact_state_gib, *edited("u00-state-gib", EDITS), relative_tolerance=PROMISED),
)
