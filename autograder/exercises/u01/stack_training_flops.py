"""Check of the training FLOPs of a stack with frozen layers."""

import itertools
import random

import torch

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.exercises.model_answers import mistakes_of
from autograder.exercises.u01.shared.counts import (
    COUNTERS,
    just_above,
    meta,
    one_at_a_time,
)
from course_utils.instruments import count_flops


def stack_cases(seed: int) -> list[Case]:
    """Every choice of trained layers among up to four, and one long stack.

    The last count is beyond a float and 64 bits.
    """
    rng = random.Random(seed)
    worked = {"num_tokens": 2, "widths": [3, 5, 7], "is_trained": [True, True]}
    frozen = {"num_tokens": rng.randint(2, 50), "is_trained": [True, False]}
    cases: list[Case] = [worked, worked | frozen]
    choices = [[*each] for n in (1, 2, 3, 4) for each in itertools.product((True, False), repeat=n)]
    choices += [[False, False, True, False, False, False]]
    for is_trained in choices:
        widths = [rng.randrange(3, 60, 2) for _ in range(len(is_trained) + 1)]
        num_tokens = rng.randint(1, 50)
        cases.append({"num_tokens": num_tokens, "widths": widths, "is_trained": is_trained})
    start = {"num_tokens": 3, "widths": [9, rng.randrange(11, 99, 2), 5], "is_trained": [True] * 2}
    end = {"num_tokens": 4, "widths": [5, rng.randrange(11, 99, 2), 9], "is_trained": [False, True]}
    widths = [just_above(22, rng) for _ in range(3)]
    beyond = {"num_tokens": just_above(21, rng), "widths": widths, "is_trained": [True, True]}
    return [*cases, *one_at_a_time(start, end), beyond]


def measured_stack_flops(num_tokens: int, widths: list[int], is_trained: list[bool]) -> int:
    """Linear layers on data that requires no gradient, counted on the meta device."""
    layers = torch.nn.Sequential(
        *(
            torch.nn.Linear(inner, outer, bias=False, device="meta").requires_grad_(trained)
            for inner, outer, trained in zip(widths[:-1], widths[1:], is_trained, strict=True)
        )
    )
    return sum(count_flops(lambda: layers(meta(num_tokens, widths[0]))))


CHECK = Check(
    cases=stack_cases,
    judge=EqualTo(measured_stack_flops, *mistakes_of("u01-stack-training-flops")),
    answers=COUNTERS,
)
