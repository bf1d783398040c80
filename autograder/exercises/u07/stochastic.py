"""Check of stochastic rounding to bf16, over every possible random number."""

import math
import random
from bisect import bisect_left, bisect_right
from functools import lru_cache

import torch

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.checking.mistakes import Symptom
from autograder.exercises.model_answers import Edit, edited
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


# The model answer's pieces.
BITS, ADDED, CUT = "x.view(torch.int32)", "+ random", "(carried >> 16) << 16"
RESULT = "upper.view(torch.float32).bfloat16()"
BELOW_ZERO = (
    "Right above zero, wrong below. Without its last bits a negative number is nearer to zero: on "
    "which side of it is its other neighbor?"
)
FARTHER = (
    "The farther neighbor is the more likely one in your results. When does adding a random number "
    "carry into the bits that stay?"
)
TO_X = "You add the random number to x itself, as a number. What is it to be added to?"
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
EDITS = (
    Edit(
        "All random numbers give the same result, the nearest one. Where do they enter?",
        {RESULT: "x.bfloat16()"},
    ),
    Edit(
        "All random numbers give the same result, with the last bits cut off. What has to be "
        "added before they are cut?",
        {ADDED: ""},
    ),
    Edit(
        "All random numbers give the same result, the neighbor farther from zero. How often "
        "should a number a quarter of the way go there?",
        {ADDED: "+ 65_535"},
    ),
    Edit(
        "Your results are nearly zero: you keep the lower 16 bits. Which bits does bf16 keep?",
        {CUT: "carried & 65_535"},
    ),
    Edit(TO_X, {RESULT: "(x + random).bfloat16()"}),
    Edit(TO_X, {f"{BITS} {ADDED}": f"(x {ADDED}).view(torch.int32)"}),
    Edit(
        "You subtract the random number, so you only ever go towards zero. What has to carry "
        "into the upper bits?",
        {ADDED: "- random"},
    ),
    Edit(
        BELOW_ZERO,
        {
            ADDED: "",
            f"return {RESULT}": f"low = {RESULT}\n"
            "    above = torch.nextafter(low, torch.full_like(low, torch.inf))\n"
            f"    return torch.where(random < {BITS} % 65_536, above, low)",
        },
    ),
    Edit(
        BELOW_ZERO,
        {
            ADDED: "",
            f"return {RESULT}": "low = upper.view(torch.float32)\n"
            "    spacing = torch.ldexp(torch.ones_like(x), torch.frexp(x)[1] - 8)\n"
            f"    return torch.where(random < {BITS} % 65_536, low + spacing, low).bfloat16()",
        },
    ),
    Edit(
        "Both neighbors are equally likely in your results. Which should be more likely for a "
        "number that is nearly there?",
        {ADDED: "+ (random >= 32_768).int() * 65_535"},
    ),
    Edit(
        FARTHER,
        {ADDED: f"+ (random >= {BITS} % 65_536).int() * 65_535"},
    ),
    *(
        Edit(FARTHER, {ADDED: f"+ (random {sign} {BITS} % 65_536).int() * 65_536"})
        for sign in (">", ">=")
    ),
    Edit(
        "You turn the upper 16 bits into the number that they spell. Which call keeps the bits and "
        "changes only what they stand for?",
        {CUT: "carried >> 16", RESULT: "upper.bfloat16()"},
    ),
    Edit(
        "You add the random number and then round to the nearest. After the addition, what "
        "should happen to the last 16 bits?",
        {CUT: "carried"},
    ),
    Edit(
        "Your mean is off by a 65,536th of a spacing. Does a number that bf16 holds exactly stay "
        "as it is for every random number?",
        {ADDED: "+ random + 1"},
    ),
    Edit(
        "Your results can be twice a spacing away. How large may a random number be, against the "
        "bits that are cut off?",
        {ADDED: "+ 2 * random"},
    ),
    Edit(
        "Only half of each random number counts in your sum. How many bits does a random number "
        "have, and how many are cut off?",
        {ADDED: "+ random // 2"},
    ),
)

CHECK = Check(
    cases=chance_cases,
    observe=stochastic.observe,
    judge=Behaviour(
        measured,
        *SYMPTOMS,
        *edited("u07-stochastic", EDITS, observe=stochastic.observe),
        summarise=stochastic.summarise,
        questions={
            "mean": "The mean is off. How many of the 65,536 random numbers should lead to the "
            "upper neighbour, and for how many does your comparison hold?",
            "smallest": "The lower neighbour is another number. Which bits of x does bf16 keep?",
            "largest": "The upper neighbour is another number. What has to be added to the bits "
            "that bf16 keeps?",
        },
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
