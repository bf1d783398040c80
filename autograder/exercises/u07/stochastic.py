"""Check of stochastic rounding to bf16, over every possible random number."""

import math
import random
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo, Mistake
from autograder.exercises.observing import require_tensor
from course_utils.instruments import numbers_of

NUM_CUT_BITS = 16  # of fp32, to make it bf16
NUM_CHANCES = 2**NUM_CUT_BITS
FP32_BITS = 24
BF16_BITS = 8

Numbers = dict[str, int | float]
NAMES = ("twice_the_numbers", "not_from_random", "not_bf16", "mean", "smallest", "largest")


def rounded_by_chance(x: Tensor, random: Tensor) -> Tensor:
    """The course's own answer: what is cut off carries with its own probability."""
    bits: Tensor = (x.view(torch.int32) + random) & -NUM_CHANCES
    return bits.view(torch.float32).to(torch.bfloat16)


def chance_cases(seed: int) -> list[Case]:
    """Numbers that are in bf16, near one that is, or in the middle; both signs, several sizes."""
    rng = random.Random(seed)
    sizes = [1.0 + 2**-9, 1.0, 1.0 + 2**-8, 2.0 - 2**-10, 2.0**-40, 0.0]
    while len(sizes) < 24:
        parts = rng.choice((rng.randrange(1, 2**14), rng.randrange(3 * 2**14, NUM_CHANCES)))
        mantissa = rng.randrange(2 ** (BF16_BITS - 1), 2**BF16_BITS) * NUM_CHANCES + parts
        sizes.append(mantissa * 2.0 ** (rng.randint(-30, 30) - FP32_BITS))
    return [{"x": size if index % 2 == 0 else -size} for index, size in enumerate(sizes)]


def _all_chances(x: float) -> tuple[Tensor, Tensor]:
    """``x`` once for every random number, and these."""
    return torch.full((NUM_CHANCES,), x), torch.arange(NUM_CHANCES, dtype=torch.int32)


def observe_chance(answer: Any, case: Case) -> object:
    """Mean, smallest and largest result over all random numbers, and flaws."""
    result = require_tensor(answer(*_all_chances(case["x"])))
    if result.numel() == 2 * NUM_CHANCES:
        return dict.fromkeys(NAMES, 0) | {"twice_the_numbers": 1}
    if result.shape != (NUM_CHANCES,):
        shape = tuple(result.shape)
        raise TypeError(f"wanted a tensor of the shape of x, {(NUM_CHANCES,)}, got {shape}")
    numbers, random = _all_chances(case["x"])
    equal = require_tensor(answer(numbers, torch.full_like(random, NUM_CHANCES // 2)))
    return _summary(result) | {
        "not_from_random": int(len(equal.float().view(torch.int32).unique()) > 1),
        "not_bf16": int(result.dtype != torch.bfloat16),
    }


def _summary(results: Tensor) -> Numbers:
    """Mean and ends of numbers with few bits and similar size, whose sum is exact in float64."""
    exact = results.double()
    ends = {"smallest": exact.min().item(), "largest": exact.max().item()}
    return dict.fromkeys(NAMES, 0) | {"mean": exact.mean().item()} | ends


def _neighbours(x: float) -> tuple[float, float]:
    """The bf16 numbers at or below ``x`` and at or above it, from the list of all."""
    numbers = _numbers_of_bf16()
    return numbers[bisect_right(numbers, x) - 1], numbers[bisect_left(numbers, x)]


@lru_cache
def _numbers_of_bf16() -> list[float]:
    return sorted(each for each in numbers_of(torch.bfloat16) if math.isfinite(each))


def wanted(x: float) -> Numbers:
    """The mean is the number itself; results reach both of its neighbours and no further."""
    low, high = _neighbours(x)
    return dict.fromkeys(NAMES, 0) | {"mean": x, "smallest": low, "largest": high}


def _always(value: float) -> Numbers:
    return {"mean": value, "smallest": value, "largest": value}


def _outcome(x: float, way: Callable[[Tensor, Tensor], Tensor]) -> Numbers:
    summary = _summary(way(*_all_chances(x)))
    return {name: summary[name] for name in ("mean", "smallest", "largest")}


def _lower_bits(x: Tensor, random: Tensor) -> Tensor:
    bits: Tensor = (x.view(torch.int32) + random) & (NUM_CHANCES - 1)
    return bits.view(torch.float32).bfloat16()


def _next_above(x: Tensor, random: Tensor) -> Tensor:
    """Carry to the next number above the one without its last bits, whatever the sign."""
    bits = x.view(torch.int32)
    rest = bits & (NUM_CHANCES - 1)
    low = (bits - rest).view(torch.float32).bfloat16()
    above = torch.nextafter(low, torch.full_like(low, torch.inf))
    return torch.where(random < rest, above, low)


CHECK = Check(
    cases=chance_cases,
    reference=rounded_by_chance,
    observe=observe_chance,
    judge=EqualTo(
        wanted,
        Mistake(
            "All numbers are right, and they are not stored as bf16. Which type does the exercise "
            "ask for?",
            lambda x: {"not_bf16": 1},
        ),
        Mistake(
            "All random numbers give the same, the nearest. Where do they enter?",
            lambda x: _always(torch.tensor(x).bfloat16().item()),
        ),
        Mistake(
            "Your result has twice as many numbers as x: int64 has bits for two numbers of fp32. "
            "Which line makes int32 to int64?",
            lambda x: {"twice_the_numbers": 1},
        ),
        Mistake(
            "The same number and the same random number give different results. Whose random "
            "numbers does your function use?",
            lambda x: {"not_from_random": 1},
        ),
        Mistake(
            "Your results are nearly zero: you keep the lower 16 bits. Which ones does bf16 keep?",
            lambda x: _outcome(x, _lower_bits),
        ),
        Mistake(
            "You add the random number to x itself, as so many ones. What is it to be added to?",
            lambda x: _outcome(x, lambda t, r: (t + r).bfloat16()),
        ),
        Mistake(
            "You subtract the random number, and so only ever go towards zero. What has to carry "
            "into the upper bits?",
            lambda x: _outcome(x, lambda t, r: rounded_by_chance(t, -r)),
        ),
        Mistake(
            "Right above zero, wrong below. Without its last bits a negative number is nearer to "
            "zero: on which side of it is the other neighbour?",
            lambda x: _outcome(x, _next_above),
        ),
        Mistake(
            "All random numbers give the same, with the last bits cut off. What has to be added "
            "before they are cut?",
            lambda x: _always(min(_neighbours(x), key=abs)),
        ),
        Mistake(
            "Both neighbours are equally likely with you. Which of them should be the more "
            "likely one for a number that is nearly there?",
            lambda x: {"mean": sum(_neighbours(x)) / 2},
        ),
        Mistake(
            "The farther neighbour is the more likely one with you. When does adding a random "
            "number carry into the bits that stay?",
            lambda x: {"mean": sum(_neighbours(x)) - x},
        ),
        Mistake(
            "You add the random number and then round to the nearest. How many of the last bits "
            "are left to round after they have had their effect?",
            lambda x: _outcome(
                x, lambda t, r: (t.view(torch.int32) + r).view(torch.float32).bfloat16()
            ),
        ),
        Mistake(
            "Your mean is off by a 65,536th of a spacing. Does a number that bf16 holds exactly "
            "stay as it is for every random number?",
            lambda x: _outcome(x, lambda t, r: rounded_by_chance(t, r + 1)),
        ),
        together=True,
    ),
)
