"""The checks of unit 07: where are 16 bits enough?"""

import contextlib
import itertools
import math
import random
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import SGD

from autograder.checking.exercise_check import Case, named
from autograder.checking.mistakes import Symptom
from autograder.checking.precision import PROMISED
from autograder.exercises.declaring import declares_check
from autograder.observers.tools import undisturbed
from autograder.observers.u07 import fp32_master_weights, int8, scaler, stochastic
from autograder.observers.u07.stochastic import NUM_CHANCES
from course_utils.instruments import count_saved_bytes, fake_tensors, numbers_of

# === u07-value
# The number that a pattern of bits stands for, measured by torch.


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


def _seen_in_float64(bits: str, num_exponent_bits: int) -> float:
    """The fields at their places in float64, times what the two biases differ by as powers.

    An exponent of ones stays one, so that infinities and NaN stay what they are. The biases are
    2**10 - 1 and 2**(n - 1) - 1; times a power of two subnormal numbers come out right, too.
    """
    exponent, mantissa = bits[1 : 1 + num_exponent_bits], bits[1 + num_exponent_bits :]
    filling = "0" if "0" in exponent else "1"
    whole = bits[0] + exponent.rjust(11, filling) + mantissa.ljust(52, "0")
    number = torch.tensor([int(whole, 2)], dtype=torch.uint64).view(torch.float64).item()
    return float(number * 2.0 ** (2**10 - 2 ** (num_exponent_bits - 1)))


def value_cases(seed: int) -> list[Case]:
    """In each format: zeros, subnormal and normal numbers, infinities and NaN, of both signs."""
    rng = random.Random(seed)
    cases = [_value_case("0", "01111", "10")]
    invented = (rng.choice(OTHER_EXPONENT_BITS), rng.randint(4, 9))
    formats = (*WIDTHS, EIGHT_BITS_DIVIDED_OTHERWISE, invented)
    for number, (exponent_bits, mantissa_bits) in enumerate(formats):
        zeros, ones = "0" * exponent_bits, "1" * exponent_bits
        one, two = ("0", "1") if number % 2 else ("1", "0")  # signs, by turns
        some, other = _some_bits(rng, exponent_bits), _some_bits(rng, exponent_bits)
        cases += [
            _value_case(one, some, _some_bits(rng, mantissa_bits)),
            _value_case(two, other, _some_bits(rng, mantissa_bits)),
            _value_case(one, zeros, _some_bits(rng, mantissa_bits)),
            _value_case(two, zeros, _some_bits(rng, mantissa_bits)),
            _value_case(rng.choice("01"), ones, _some_bits(rng, mantissa_bits)),
        ]
    return [*cases, *(case for _ in range(3) for case in _without_mantissa(rng))]


def _without_mantissa(rng: random.Random) -> Iterator[Case]:
    """Zeros and infinities of both signs, in formats of machines and others."""
    for sign, bit in itertools.product("01", repeat=2):
        invented = (rng.choice(OTHER_EXPONENT_BITS), rng.randint(2, 20))
        exponent_bits, mantissa_bits = rng.choice((*WIDTHS, invented, invented, invented))
        yield _value_case(sign, bit * exponent_bits, "0" * mantissa_bits)


def _some_bits(rng: random.Random, width: int) -> str:
    """Neither all zeros nor all ones."""
    return format(rng.randint(1, 2**width - 2), f"0{width}b")


def _value_case(sign: str, exponent: str, mantissa: str) -> Case:
    return {"bits": sign + exponent + mantissa, "num_exponent_bits": len(exponent)}


@declares_check(
    "u07-value",
    value_cases,
    together=True,
    fallback="course_utils.formulas.number_formats.value_of",
    give_away=("course_utils.instruments.bit_patterns.numbers_of",),
    forbidden_modules=("torch", "struct"),
)
def seen_by_torch(bits: str, num_exponent_bits: int) -> float:
    """The same bits viewed as torch's type; tf32 is fp32 with 13 zeros at the end."""
    if (num_exponent_bits, len(bits)) == (8, 19):
        bits += "0" * 13
    dtype = FLOATS.get((num_exponent_bits, len(bits) - 1 - num_exponent_bits))
    if dtype is None:
        return _seen_in_float64(bits, num_exponent_bits)
    return float(torch.tensor([int(bits, 2)], dtype=INTEGERS[len(bits)]).view(dtype).item())


# === u07-master
# An SGD step on fp32 master weights: what it changes, frees and leaves alone.


MASTER_SCENARIOS = ("few weights", "many weights", "one without gradient")
NUM_WEIGHTS = dict(zip(MASTER_SCENARIOS, ((2, 3), (6, 8), (3, 3)), strict=True))
RATES = (0.003, 0.007, 0.011, 0.013)
MASTER_NAMES = ("scenario", "num_weights", "num_numbers", "num_steps", "learning_rate")

FP32_BYTES = 4
# fp32 tensors alive at once: a gradient and its product with the rate, for two weights in a row.
MOST_AT_ONCE = 4


def master_cases(seed: int) -> list[Case]:
    """Each scenario with one step and more, and weights of several sizes."""
    rng = random.Random(seed)
    sizes: list[tuple[str, int, int, int, float]] = [("few weights", 1, 1, 4, 0.01)]
    for num_steps in (1, 2, 3, 4, 5, 3, 2):
        for scenario in MASTER_SCENARIOS:
            num_weights = rng.randint(*NUM_WEIGHTS[scenario])
            numbers = rng.randint(20, 40)
            sizes.append((scenario, num_weights, numbers, num_steps, rng.choice(RATES)))
    return [named(MASTER_NAMES, each) for each in sizes]


@declares_check(
    "u07-master",
    master_cases,
    observer=fp32_master_weights,
    symptoms=(
        Symptom(
            "All is right, except that several gradients are in fp32 at once. When is each of "
            "them no longer needed?",
            lambda *case: {"too_much": 1},
        ),
    ),
    scenarios=MASTER_SCENARIOS,
    fallback="course_utils.reference.mixed_precision.step_on_masters",
    give_away=("course_utils.reference.mixed_precision.step_on_masters",),
)
def measured_master(**case: Any) -> dict[str, Any]:
    """Masters that have gone all steps in float64; no tensor has any flaw."""
    trial = fp32_master_weights.trial_of(case)
    way = case["learning_rate"] * trial.factors.double().sum(0)
    if trial.idle is not None:
        way[trial.idle] = 0
    return {
        "way": 1.0,
        "masters": trial.start.double() - way,
        "most_working_bytes": [MOST_AT_ONCE * FP32_BYTES * case["num_numbers"]],
    }


# === for several exercises
# What a loss scaler leaves after each step, by PyTorch's own.


def measured_torch_scaler(scenario: str, *, steps: list[str], **settings: Any) -> dict[str, Any]:
    """What is there after each step with `torch.amp.GradScaler`, and no flaw."""
    with undisturbed():
        seen = _with_torchs(scaler.Trial(scenario, steps), steps, **settings)
    return {
        "steps": sum(each["is_good"] for each in seen),
        "sum_of_scales": sum(each["scale"] for each in seen),
        "of_torch": seen,
    }


def _with_torchs(
    trial: scaler.Trial, steps: list[str], *, scale: float, **settings: Any
) -> list[dict[str, Any]]:
    torchs, seen = torch.amp.GradScaler("cpu", init_scale=scale, **settings), []
    for step in steps:
        trial.optimizer.zero_grad()
        torchs.scale(trial.loss(step)).backward()
        before = trial.num_steps
        # PyTorch's refuses a step without any gradient
        torchs.step(_with_gradients_of_zero() if step == "nothing" else trial.optimizer)
        torchs.update()
        seen.append(
            {
                "is_good": trial.num_steps > before or step == "nothing",
                "gradients": trial.gradients(),
                "weights": [each.tolist() for each in trial.weights],
                "scale": torchs.get_scale(),
            }
        )
    return seen


def _with_gradients_of_zero() -> SGD:
    weight = nn.Parameter(torch.zeros(1))
    weight.grad = torch.zeros(1)
    return SGD([weight], 1.0)


# === u07-scaler
# A loss scaler: step by step beside PyTorch's own.


SCALER_SCENARIOS = ("growth", "overflow", "one after the other", "one without gradient")
SCALER_NAMES = ("scenario", "scale", "growth_factor", "backoff_factor", "growth_interval", "steps")
# From a small scale to less than one; gradients are so large that fp16 rounds them all alike.
LOW = ["large", "inf", "inf", "inf", "large"]


def scaler_cases(seed: int) -> list[Case]:
    """Growth after 1 to 4 steps; each kind of overflow in the first step, later and in a row."""
    rng = random.Random(seed)
    good = ["good"]
    by_hand = {"scale": 2.0**10, "growth_factor": 2.0, "backoff_factor": 0.5}
    cases = [_scaler_case(rng, "growth", good * 5, interval=2) | by_hand]
    cases += [_scaler_case(rng, "growth", good * rng.randint(5, 8), interval=n) for n in (1, 2, 3)]
    cases.append(
        _scaler_case(rng, "growth", ["huge", *good * rng.randint(5, 12)], interval=4)
        | {"scale": 1.0}
    )
    for steps in (
        ["inf", *good * 3],
        ["nan", "opposite", *good * 2],
        [*good, "inf in the first", *good * 2],
        [*good, "nan in the second", *good * 2],
        ["inf in the second", "nan in the first", "all", *good],
    ):
        cases.append(_scaler_case(rng, "overflow", steps, interval=rng.randint(7, 9)))
    cases.append(_scaler_case(rng, "overflow", LOW, interval=rng.randint(7, 9)) | {"scale": 4.0})
    for steps in (
        [*good * 2, "inf", *good * 3],
        [*good * 2, "nan", *good * 3, "inf", *good * 4],
        [*good, "inf", *good * 2, "inf", *good * 3],
        [*good * 4, "inf in the first", *good * 6],
    ):
        cases.append(_scaler_case(rng, "one after the other", steps, interval=3))
    cases.append(
        _scaler_case(rng, "one after the other", ["large"] * 8, interval=2) | {"scale": 2.0**22}
    )
    cases.append(_scaler_case(rng, "one after the other", [*good, "nan"] * 3, interval=1))
    for steps, interval in (
        (["good", "nothing", "good", "good"], 2),
        (["inf", *good * 3], 2),
        ([*good * 2, "nan", *good * 3], 3),
    ):
        cases.append(_scaler_case(rng, "one without gradient", steps, interval=interval))
    lasts = {case["scenario"]: case for case in cases}
    for case in lasts.values():  # in each scenario some factors that are not those by hand
        case.update(growth_factor=4.0, backoff_factor=0.25)  # the case in the list
    return cases


def _scaler_case(rng: random.Random, scenario: str, steps: Sequence[str], *, interval: int) -> Case:
    growth_factor, backoff_factor = rng.choice((2.0, 4.0)), rng.choice((0.5, 0.25))
    sizes = (scenario, 2.0 ** rng.randint(12, 15), growth_factor, backoff_factor, interval)
    return named(SCALER_NAMES, (*sizes, list(steps)))


declares_check(
    "u07-scaler",
    scaler_cases,
    observer=scaler,
    symptoms=(
        Symptom(
            "All is right but what your `step` returns. Does it say whether it stepped?",
            lambda *case: {"wrong_returns": len(case[-1])},  # in every step
        ),
    ),
    scenarios=SCALER_SCENARIOS,
    fallback="course_utils.reference.loss_scaling.LossScaler",
    give_away=("course_utils.reference.loss_scaling", "torch.amp.grad_scaler.GradScaler"),
    forbidden_modules=("torch.amp", "torch.cuda.amp"),
)(measured_torch_scaler)


# === u07-stops
# The value at which a running sum of equal terms stops, measured by adding.


# By bits of mantissa: fp8-e5m2, bf16 and fp16; fp32 and fp64, in which adding takes too long.
ADDED = {2: torch.float8_e5m2, 7: torch.bfloat16, 10: torch.float16}
UNCHANGED = {23: torch.float32, 52: torch.float64}


def _first_power_unchanged(term: float, dtype: torch.dtype, num_mantissa_bits: int) -> float:
    """The first power of two above the term that adding the term leaves unchanged.

    Adding up would take a million terms or more. On its way a sum meets every power of two: below
    2**k numbers are spaced by a divisor of 2**k, so that a sum which grows by its last bits lands
    on 2**k and cannot skip it.
    """
    lowest = math.frexp(term)[1]
    exponents = range(lowest, lowest + num_mantissa_bits + 3)
    powers = torch.tensor([2.0**power for power in exponents], dtype=dtype)
    unchanged = powers + torch.tensor(term, dtype=dtype) == powers
    return float(powers[unchanged][0])


def stop_cases(seed: int) -> list[Case]:
    """Powers of two and terms in both halves between them, below and above one, in five formats.

    The second case has 52 bits, so that an answer which adds up term by term runs out of time in
    it; a fast machine would finish 23 bits.
    """
    rng = random.Random(seed)
    cases = [_stops_case(1.0, 2), _stops_case(2.0 ** rng.randint(-30, 30), 52)]
    for bits in (*ADDED, *UNCHANGED):
        lowest, highest = (-6, 2) if bits in (2, 10) else (-30, 30)
        halves = (1, 3 * 2**bits // 8), (2 ** (bits - 1), 2**bits - 1), (1, 2**bits - 1)
        powers = (rng.randint(lowest, highest), rng.randint(lowest, -1), rng.randint(1, highest))
        for power, (least, most) in zip(powers, halves, strict=True):
            scale = 2.0 ** (power - bits)
            between = (2**bits + rng.randint(least, most)) * scale
            cases += [_stops_case(2.0**power, bits), _stops_case(between, bits)]
    return cases


def _stops_case(term: float, num_mantissa_bits: int) -> Case:
    return {"term": term, "num_mantissa_bits": num_mantissa_bits}


@declares_check(
    "u07-stops",
    stop_cases,
    relative_tolerance=PROMISED,
    together=True,
    fallback="course_utils.formulas.number_formats.stops_at",
)
def measured_stop(term: float, num_mantissa_bits: int) -> float:
    """The sum that a term no longer changes."""
    if num_mantissa_bits in UNCHANGED:
        return _first_power_unchanged(term, UNCHANGED[num_mantissa_bits], num_mantissa_bits)
    total, last = term, 0.0
    while total != last:  # in fp32, which holds each sum, then rounded: torch cannot add fp8
        last, total = total, torch.tensor(total + term).to(ADDED[num_mantissa_bits]).item()
    return total


# === u07-round
# Rounding to a format, measured by torch's conversion.
#
# torch converts float64 to bf16, fp16 and fp8 by way of fp32, and so rounds twice: in bf16
# 1 + 2**-8 + 2**-30 becomes 1, although 1 + 2**-7 is nearer. The cases of these formats are numbers
# that fp32 holds exactly, so that only the second rounding is left.


TF32 = (8, 10)
NUM_CUT_BITS = 13  # of fp32, to make it tf32
NUM_FORMATS_AT_THE_ENDS = 3


def _tf32_by_integers(x: float) -> float:
    """Add half a spacing of tf32 to the bits of fp32 as an integer, and cut 13 bits off.

    It is half a spacing less one, plus the last bit that is kept: so a tie goes to the even number.
    A carry into the exponent gives the next power of two, or infinity after the last.
    """
    bits = int(torch.tensor([x], dtype=torch.float32).view(torch.int32).item()) & 0xFFFFFFFF
    is_odd = (bits >> NUM_CUT_BITS) & 1
    bits += 2 ** (NUM_CUT_BITS - 1) - 1 + is_odd
    bits -= bits % 2**NUM_CUT_BITS
    return float(torch.tensor([bits], dtype=torch.uint32).view(torch.float32).item())


def rounding_cases(seed: int) -> list[Case]:
    """In each format: between two numbers, in their middle, at zero and at both ends."""
    rng = random.Random(seed)
    cases = [_round_case(0.3, 5, 2)]
    for number, widths in enumerate(WIDTHS):
        for index, x in enumerate(_between(rng, *widths)):
            cases.append(_round_case(x if (number + index) % 2 else -x, *widths))
    for widths in rng.choices(WIDTHS, k=NUM_FORMATS_AT_THE_ENDS):
        cases += [_round_case(rng.choice((-x, x)), *widths) for x in _at_the_ends(rng, *widths)]
    return cases


def _between(rng: random.Random, exponent_bits: int, mantissa_bits: int) -> list[float]:
    """Positive normal numbers, at fractions of a spacing; of fp32 itself they are rounded once."""
    bias, scale = 2 ** (exponent_bits - 1) - 1, 2**mantissa_bits
    spacing = 2.0 ** (rng.randint(2 - bias, bias - 1) - mantissa_bits)
    even = 2 * rng.randint(scale // 2, scale - 1)
    last = 2 * scale - 1
    return [
        even * spacing,
        (even + rng.choice((0.25, 0.375))) * spacing,
        (even + rng.choice((0.625, 0.75))) * spacing,
        (even + 0.5) * spacing,
        (even + 1.5) * spacing,
        (even + 0.5) * spacing,  # again, with the other sign
        (last + 0.75) * spacing,  # up to the next power of two
    ]


def _at_the_ends(rng: random.Random, exponent_bits: int, mantissa_bits: int) -> list[float]:
    """Zero, subnormal numbers, and those around the largest."""
    bias, scale = 2 ** (exponent_bits - 1) - 1, 2**mantissa_bits
    tiny = 2.0 ** (1 - bias - mantissa_bits)  # the smallest number, and the spacing beside it
    top = 2.0 ** (bias - mantissa_bits)  # the spacing beside the largest number, last * top
    last = 2 * scale - 1
    few = 2 * rng.randint(1, scale // 2 - 1)
    return [
        0.0,
        (few + 0.25) * tiny,
        (few + 0.5) * tiny,
        (few + 1.5) * tiny,
        (few + 1) * tiny,
        0.5 * tiny,
        0.75 * tiny,
        1.25 * scale * top,
        last * top,
        (last + 0.25) * top,
        (last + 0.5) * top,  # the tie between the largest number and infinity
        (last + 0.75) * top,
        2 * scale * top,
        3 * scale * top,
        6 * scale * top,
    ]


def _round_case(x: float, exponent_bits: int, mantissa_bits: int) -> Case:
    return {"x": x, "num_exponent_bits": exponent_bits, "num_mantissa_bits": mantissa_bits}


@declares_check(
    "u07-round",
    rounding_cases,
    together=True,
    fallback="course_utils.formulas.number_formats.rounded",
    give_away=("course_utils.instruments.bit_patterns.numbers_of",),
    forbidden_modules=("torch", "struct"),
)
def converted(x: float, num_exponent_bits: int, num_mantissa_bits: int) -> float:
    """What torch makes of ``x``; tf32, which torch has no type for, by integer arithmetic."""
    widths = (num_exponent_bits, num_mantissa_bits)
    if widths == TF32:
        return _tf32_by_integers(x)
    return float(torch.tensor(x, dtype=torch.float64).to(FLOATS[widths]).item())


# === u07-int8
# Quantisation to int8 with one scale for each row.


LARGEST = 127
FIVE_DIGITS = 1e-4  # numbers are rounded to five digits, of which the last may differ
DISTANCE_FROM_TIE = 0.01  # so that a scale with other roundings gives the same integers
MOST_COLUMNS = 5

Rows = list[list[float]]


def quantised_cases(seed: int) -> list[Case]:
    """Rows of several sizes, one whose largest is negative, ties; zeros beside nearly nothing."""
    rng = random.Random(seed)
    cases: list[Rows] = [
        [[254.0, -3.0]],
        [[0.0] * 4, [127.0, 0.5, -2.5, float(rng.randint(-99, 99))]],
    ]
    while len(cases) < 20:
        num_columns = rng.randint(3, MOST_COLUMNS)
        rows = [_row(rng, num_columns, scale) for scale in rng.sample((0.25, 1, 8, 64), 2)]
        rows[0][0] = -2 * max(map(abs, rows[0]))
        if len(cases) % 4 == 0:
            rows[1:] = [[0.0] * num_columns, _row(rng, num_columns, 2.0**-40)]
        if all(_is_far_from_ties(row) for row in rows):
            cases.append(rows)
    return [{"x": rows} for rows in cases]


def _row(rng: random.Random, num_columns: int, scale: float) -> list[float]:
    return [float(scale * rng.choice((-1, 1)) * rng.randint(1, 99)) for _ in range(num_columns)]


def _is_far_from_ties(row: list[float]) -> bool:
    """Whether no number lies near the middle between two integers."""
    largest = max(map(abs, row)) or 1.0
    return all(abs(LARGEST * abs(x) / largest % 1 - 0.5) > DISTANCE_FROM_TIE for x in row)


def _in_fp32(number: Fraction) -> float:
    return torch.tensor(float(number), dtype=torch.float64).float().item()


INT8_SYMPTOMS = (
    Symptom(
        "Your function changes x itself. Which of your operations writes into it?",
        lambda x: {"x_changed": 1},
    ),
    Symptom(
        "Your integers are not stored as int8. How many bytes does each take now?",
        lambda x: {"not_int8": 1},
    ),
    Symptom(
        "Your scales are not stored as fp32. Which line changes their type?",
        lambda x: {"not_fp32": 1},
    ),
)


@declares_check(
    "u07-int8",
    quantised_cases,
    observer=int8,
    first_symptoms=INT8_SYMPTOMS,
    relative_tolerance=FIVE_DIGITS,
    fallback="course_utils.reference.quantization.quantised",
    give_away=("course_utils.reference.quantization",),
)
def measured_int8(x: Rows) -> dict[str, Any]:
    """Scales and integers by exact fractions, number by number."""
    scales = [Fraction(max(map(abs, row))) / LARGEST or Fraction(1) for row in x]
    integers = [
        [round(Fraction(number) / scale) for number in row]
        for row, scale in zip(x, scales, strict=True)
    ]
    facts = int8.numbers([int8.rounded(_in_fp32(scale)) for scale in scales], integers)
    return {each.name: each.value for each in facts}


# === u07-stochastic
# Stochastic rounding to bf16, over every possible random number.


# Bits of a mantissa with the one in front.
FP32_BITS = 24
BF16_BITS = 8


def chance_cases(seed: int) -> list[Case]:
    """Numbers that are in bf16, near one that is, or in the middle; both signs, several sizes."""
    rng = random.Random(seed)
    held, middle, near = (2.0 ** rng.randint(-20, 20) for _ in range(3))
    sizes = [1.0 + 2**-9, held, middle * (1.0 + 2**-8), near * (2.0 - 2**-10)]
    sizes += [2.0 ** rng.randint(-60, -30), 0.0]
    while len(sizes) < 24:
        # what bf16 drops of fp32: 16 bits, of a small number or nearly all ones
        parts = rng.choice((rng.randrange(1, 2**14), rng.randrange(3 * 2**14, NUM_CHANCES)))
        mantissa = rng.randrange(2 ** (BF16_BITS - 1), 2**BF16_BITS) * NUM_CHANCES + parts
        sizes.append(mantissa * 2.0 ** (rng.randint(-30, 30) - FP32_BITS))
    return [{"x": size if index % 2 == 0 else -size} for index, size in enumerate(sizes)]


@lru_cache
def _numbers_of_bf16() -> list[float]:
    return sorted(each for each in numbers_of(torch.bfloat16) if math.isfinite(each))


STOCHASTIC_SYMPTOMS = (
    Symptom(
        "Your result has twice as many numbers as x: int64 holds the bits of two fp32 numbers. "
        "Which line turns int32 into int64?",
        lambda x: {"twice": 1},
    ),
    Symptom(
        "The same x and the same random number give different results. Whose random numbers does "
        "your function use?",
        lambda x: {"not_from_random": 1},
    ),
    Symptom(
        "Your results are not stored as bf16. Which type does the exercise ask for?",
        lambda x: {"not_bf16": 1},
    ),
    Symptom(
        "Your function changes x or the random numbers. Which of your operations writes into a "
        "tensor that came in?",
        lambda x: {"changed": 1},
    ),
)


@declares_check(
    "u07-stochastic",
    chance_cases,
    observer=stochastic,
    first_symptoms=STOCHASTIC_SYMPTOMS,
    fallback="course_utils.reference.quantization.rounded_by_chance",
    give_away=("course_utils.reference.quantization",),
)
def measured_stochastic(x: float) -> dict[str, float]:
    """The mean is the number itself; results reach both of its neighbours and no further."""
    numbers = _numbers_of_bf16()
    low, high = numbers[bisect_right(numbers, x) - 1], numbers[bisect_left(numbers, x)]
    return {"mean": x, "smallest": low, "largest": high}


# === u07-autocast-bytes
# What a feed-forward block keeps under autocast: copies of weights, and activations.


AUTOCAST_BYTES_NAMES = ("num_tokens", "hidden_size", "ffn_size", "num_calls", "wants_input_grad")
HUGE = 2**27


def autocast_cases(seed: int) -> list[Case]:
    """One call and several, on an input that requires a gradient or does not.

    Counts of the last two are more than a float holds.
    """
    rng = random.Random(seed)
    sizes: list[tuple[int, int, int, int, bool]] = [(3, 4, 8, 1, False)]
    for num_calls in (1, 2, 3, 1, 4):
        for wants_input_grad in (False, True, False, True):
            # three different sizes, so that shapes tell weights from activations
            tokens, hidden, inner = rng.sample(range(2, 24), 3)
            sizes.append((tokens, hidden, inner, num_calls, wants_input_grad))
    for wants_input_grad in (False, True):
        tokens, hidden, inner = rng.sample(range(HUGE + 1, HUGE + 999, 2), 3)
        sizes.append((tokens, hidden, inner, 1, wants_input_grad))
    return [named(AUTOCAST_BYTES_NAMES, each) for each in sizes]


@declares_check(
    "u07-autocast-bytes",
    autocast_cases,
    fallback="course_utils.formulas.activations.autocast_saved_bytes",
    give_away=(
        "course_utils.instruments.saved_bytes",
        "torch.autograd.graph.saved_tensors_hooks",
    ),
)
def measured_bytes(
    num_tokens: int, hidden_size: int, ffn_size: int, num_calls: int, wants_input_grad: bool
) -> dict[str, int]:
    """What autograd keeps of a real block called several times in a row under autocast.

    Where no memory holds its tensors they have sizes and no numbers.
    """

    def call() -> Tensor:
        x = given
        with torch.autocast("cpu", torch.bfloat16):
            for _ in range(num_calls):
                x = block(x)
        return x

    with fake_tensors() if num_tokens >= HUGE else contextlib.nullcontext():
        block = nn.Sequential(
            nn.Linear(hidden_size, ffn_size), nn.GELU(), nn.Linear(ffn_size, hidden_size)
        )
        given = torch.ones(num_tokens, hidden_size, requires_grad=wants_input_grad)
        kept = count_saved_bytes(call, block).tensors
    weight_shapes = {(hidden_size, ffn_size), (ffn_size, hidden_size)}
    return {
        "weights": sum(each.storage_bytes for each in kept if each.shape in weight_shapes),
        "activations": sum(each.storage_bytes for each in kept if each.shape not in weight_shapes),
    }
