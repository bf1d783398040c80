"""Check of the largest loss scale without overflow in fp16, and of what still underflows."""

import functools
import math
import random

import torch

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo, Mistake

LARGEST_FP16, SMALLEST_FP16 = 65504.0, 2.0**-24
# The middle between 65504 and the next power of two, from where on fp16 rounds to inf.
FIRST_TO_OVERFLOW = 65520.0
EXPONENTS = range(-40, 61)
Numbers = dict[str, int | float]


def best_scale(gradients: list[float]) -> Numbers:
    """The course's own answer."""
    largest = max(map(abs, gradients))
    exponent = math.floor(math.log2(FIRST_TO_OVERFLOW / largest))
    if largest * 2.0**exponent >= FIRST_TO_OVERFLOW:
        exponent -= 1
    return _with_scale(gradients, 2.0**exponent)


def _with_scale(gradients: list[float], scale: float) -> Numbers:
    # half of the smallest number is a tie, and zero is even
    zeros = sum(0 < abs(each) * scale <= SMALLEST_FP16 / 2 for each in gradients)
    return {"scale": scale, "still_zero": zeros}


def scale_cases(seed: int) -> list[Case]:
    """Largest gradients that are negative, need a scale below one, or are decided by rounding."""
    rng = random.Random(seed)
    lists = [[3.0, 2.0**-40, 0.0]]
    for near in (65519.0, 65504.0, 65505.0, 65520.0, 65536.0):
        positive = abs(_number(rng, rng.randint(-60, -30)))  # every list has a positive number
        few = [positive, *(_number(rng, rng.randint(-60, -30)) for _ in range(rng.randint(1, 3)))]
        lists.append(
            [*few, _number(rng, -30), *(_number(rng, rng.randint(-50, -2)) for _ in range(3))]
        )
        lists.append([-abs(_number(rng, rng.randint(-6, 3))), 0.0, *few])
        lists.append([_number(rng, rng.randint(17, 25)), *few, _number(rng, -8)])
        power = 2.0 ** rng.randint(-20, 5)
        lists.append([near * power, *few, 2.0**-25 * power, 2.0**-24 * power, 3 * 2.0**-26 * power])
    return [{"gradients": each} for each in lists]


def _number(rng: random.Random, exponent: int) -> float:
    """A number of either sign with the 24 bits of fp32."""
    return rng.choice((-1, 1)) * rng.randrange(2**23, 2**24) * 2.0 ** (exponent - 23)


def tried(gradients: list[float]) -> Numbers:
    """Try every power of two on real fp16 tensors, the largest first."""
    return _tried(tuple(gradients))


@functools.lru_cache(maxsize=4096)
def _tried(gradients: tuple[float, ...]) -> Numbers:
    exact = torch.tensor(gradients, dtype=torch.float32)
    for exponent in reversed(EXPONENTS):
        rounded = (exact * 2.0**exponent).half()
        if rounded.isfinite().all():
            lost = (rounded == 0) & (exact != 0)
            return {"scale": 2.0**exponent, "still_zero": int(lost.sum())}
    raise AssertionError("some power is small enough for all numbers of the cases")


def _other_scale(gradients: list[float], limit: float, *, is_signed: bool = False) -> float:
    largest = max(gradients) if is_signed else max(map(abs, gradients))
    scale = 2.0**EXPONENTS.start
    while largest * scale * 2 <= limit:
        scale *= 2
    return scale


def _num_below(gradients: list[float], limit: float) -> int:
    scale = tried(gradients)["scale"]
    return sum(0 < abs(each) * scale < limit for each in gradients)


CHECK = Check(
    cases=scale_cases,
    reference=best_scale,
    judge=EqualTo(
        tried,
        Mistake(
            "Your scale is too careful where a number lies just above 65,504. Up to where does "
            "fp16 round down to its largest number?",
            lambda gradients: {"scale": _other_scale(gradients, LARGEST_FP16)},
        ),
        Mistake(
            "Your scale is wrong where the largest gradient is negative. How large is -3 to a "
            "format?",
            lambda gradients: {
                "scale": _other_scale(gradients, LARGEST_FP16, is_signed=True),
            },
        ),
        Mistake(
            "Your scale is no power of two. What would such a factor do to the digits of every "
            "gradient?",
            lambda gradients: {"scale": LARGEST_FP16 / max(map(abs, gradients))},
        ),
        Mistake(
            "Your scale is at least one. What if a gradient is beyond fp16 already?",
            lambda gradients: {"scale": max(1.0, tried(gradients)["scale"])},
        ),
        Mistake(
            "Your scale is half of what is possible. What is the largest number of fp16, and is it "
            "below 2 to the 15th?",
            lambda gradients: {"scale": tried(gradients)["scale"] / 2},
        ),
        Mistake(
            "Your scale is twice as large as possible. Does the largest gradient, multiplied, "
            "still stay finite in fp16?",
            lambda gradients: {"scale": tried(gradients)["scale"] * 2},
        ),
        Mistake(
            "You count gradients that were zero before. Which zeros did the format make?",
            lambda gradients: {
                "still_zero": tried(gradients)["still_zero"] + gradients.count(0.0),
            },
        ),
        Mistake(
            "You count the zeros that there are without a scale. At which moment does the exercise "
            "look?",
            lambda gradients: {"still_zero": _with_scale(gradients, 1.0)["still_zero"]},
        ),
        Mistake(
            "You count what falls below the smallest normal number. What does fp16 have between "
            "that and zero?",
            lambda gradients: {"still_zero": _num_below(gradients, 2.0**-14)},
        ),
        Mistake(
            "You count what lies below the smallest number. From where on is it rounded up to "
            "that number instead of down to zero?",
            lambda gradients: {"still_zero": _num_below(gradients, SMALLEST_FP16)},
        ),
        Mistake(
            "Exactly half of the smallest number is not zero with you. To which of two neighbours "
            "does a tie go?",
            lambda gradients: {"still_zero": _num_below(gradients, SMALLEST_FP16 / 2)},
        ),
    ),
)
