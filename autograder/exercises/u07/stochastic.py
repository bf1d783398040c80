"""Check of stochastic rounding to bf16, over every possible random number."""

import math
import random
from bisect import bisect_left, bisect_right
from functools import lru_cache

import torch

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.checking.mistakes import Symptom
from autograder.exercises.model_answers import mistakes_of, questions_of
from autograder.observing.u07 import stochastic
from autograder.observing.u07.stochastic import NUM_CHANCES
from course_utils.instruments import numbers_of

FP32_BITS = 24
BF16_BITS = 8


def chance_cases(seed: int) -> list[Case]:
    """Numbers that are in bf16, near one that is, or in the middle; both signs, several sizes."""
    rng = random.Random(seed)
    held, middle, near = (2.0 ** rng.randint(-20, 20) for _ in range(3))
    sizes = [1.0 + 2**-9, held, middle * (1.0 + 2**-8), near * (2.0 - 2**-10)]
    sizes += [2.0 ** rng.randint(-60, -30), 0.0]
    while len(sizes) < 24:
        parts = rng.choice((rng.randrange(1, 2**14), rng.randrange(3 * 2**14, NUM_CHANCES)))
        mantissa = rng.randrange(2 ** (BF16_BITS - 1), 2**BF16_BITS) * NUM_CHANCES + parts
        sizes.append(mantissa * 2.0 ** (rng.randint(-30, 30) - FP32_BITS))
    return [{"x": size if index % 2 == 0 else -size} for index, size in enumerate(sizes)]


def measured(x: float) -> dict[str, float]:
    """The mean is the number itself; results reach both of its neighbours and no further."""
    numbers = _numbers_of_bf16()
    low, high = numbers[bisect_right(numbers, x) - 1], numbers[bisect_left(numbers, x)]
    flaws = dict.fromkeys(("twice", "not_from_random", "not_bf16", "changed"), 0)
    return flaws | {"mean": x, "smallest": low, "largest": high}


@lru_cache
def _numbers_of_bf16() -> list[float]:
    return sorted(each for each in numbers_of(torch.bfloat16) if math.isfinite(each))


SYMPTOMS = (
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

CHECK = Check(
    cases=chance_cases,
    observe=stochastic.observe,
    judge=Behaviour(
        measured,
        *SYMPTOMS,
        *mistakes_of("u07-stochastic", observe=stochastic.observe),
        summarise=stochastic.summarise,
        questions=questions_of("u07-stochastic"),
        labels={
            "twice": "There are twice as many numbers as in x.",
            "not_from_random": "Equal random numbers give different results.",
            "not_bf16": "The results are not in bf16.",
            "changed": "x or random has changed.",
            "mean": "the mean",
            "smallest": "the smallest result",
            "largest": "the largest result",
        },
    ),
    fallback="course_utils.reference.fewer_bits.rounded_by_chance",
    answers=("course_utils.reference.fewer_bits",),
)
