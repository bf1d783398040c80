"""Check of the training FLOPs of a stack with frozen layers."""

import itertools
import random
from collections.abc import Callable

import torch

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo, Mistake
from autograder.exercises.u01.shared.counts import meta
from course_utils.instruments import count_flops


def stack_cases(seed: int) -> list[Case]:
    """All layers trained, the first ones frozen, the last ones, one in the middle, none."""
    rng = random.Random(seed)
    cases: list[Case] = [
        {"num_tokens": 2, "widths": [3, 5, 7], "is_trained": [True, top]} for top in (True, False)
    ]
    for count in (1, 2, 3, 4):
        for pattern in ("all", "none", "first frozen", "last frozen", "one", "first", "hole"):
            one = rng.randrange(count)
            is_trained = {
                "all": [True] * count,
                "none": [False] * count,
                "first frozen": [False] + [True] * (count - 1),
                "last frozen": [True] * (count - 1) + [False],
                "one": [n == one for n in range(count)],
                "first": [n == 0 for n in range(count)],
                "hole": [n != 1 for n in range(count)],
            }[pattern]
            widths = [rng.randrange(3, 60, 2) for _ in range(count + 1)]
            num_tokens = rng.randint(1, 50)
            cases.append({"num_tokens": num_tokens, "widths": widths, "is_trained": is_trained})
    return cases


def measured_stack_flops(num_tokens: int, widths: list[int], is_trained: list[bool]) -> int:
    """Linear layers on data that requires no gradient, counted on the meta device."""
    layers = torch.nn.Sequential(
        *(
            torch.nn.Linear(inner, outer, bias=False, device="meta").requires_grad_(trained)
            for inner, outer, trained in zip(widths[:-1], widths[1:], is_trained, strict=True)
        )
    )
    return sum(count_flops(lambda: layers(meta(num_tokens, widths[0]))))


def stack_training_flops(num_tokens: int, widths: list[int], is_trained: list[bool]) -> int:
    """The course's own answer: which of the two backward products run in each layer."""
    total, below_is_trained = 0, False
    for inner, outer, trained in zip(widths[:-1], widths[1:], is_trained, strict=True):
        total += 2 * num_tokens * inner * outer * (1 + below_is_trained + trained)
        below_is_trained = below_is_trained or trained
    return total


def _stack(factor: Callable[..., int]) -> Callable[..., int]:
    """FLOPs from the number of products in layer ``n``: ``factor(n, is_trained)``."""

    def formula(num_tokens: int, widths: list[int], is_trained: list[bool]) -> int:
        products = [2 * num_tokens * i * o for i, o in itertools.pairwise(widths)]
        return sum(each * factor(n, is_trained) for n, each in enumerate(products))

    return formula


CHECK = Check(
    cases=stack_cases,
    reference=stack_training_flops,
    judge=EqualTo(
        measured_stack_flops,
        Mistake(
            "Three times everywhere. Who wants the gradient of the data?",
            _stack(lambda n, trained: 3),
        ),
        Mistake(
            "That is the forward pass. What does the backward pass add?",
            _stack(lambda n, trained: 1),
        ),
        Mistake(
            "You see the first layer's data, not the frozen weights. Which product does a frozen "
            "layer leave out?",
            _stack(lambda n, trained: 3 if n else 2),
        ),
        Mistake(
            "A frozen layer still passes gradients on, where a layer before it is trained. "
            "Which product is that?",
            _stack(lambda n, trained: 1 + trained[n] + (trained[n] and any(trained[:n]))),
        ),
        Mistake(
            "Gradients go back only as far as somebody wants them. Is any layer before this one "
            "trained?",
            _stack(lambda n, trained: 1 + trained[n] + (n > 0)),
        ),
        Mistake(
            "You make the gradient of the input in every layer, of the data too. For which layers "
            "does nobody before them wait for it?",
            _stack(lambda n, trained: 2 + trained[n]),
        ),
        *(
            Mistake(
                "You ask whether a layer after this one is trained. To which side does the "
                "gradient of an input go on?",
                _stack(lambda n, trained, first=first: 1 + trained[n] + any(trained[n + first :])),
            )
            for first in (0, 1)
        ),
        Mistake(
            "You ask only the layer just before. Who passes a gradient on to a layer further down?",
            _stack(lambda n, trained: 1 + trained[n] + (n > 0 and trained[n - 1])),
        ),
        Mistake(
            "You let the gradient of an input depend on the layer's own matrix. For whom is it "
            "made?",
            _stack(lambda n, trained: 1 + trained[n] + (n > 0 and trained[n])),
        ),
        Mistake(
            "You count a layer among those that wait for the gradient of its input. Which layers "
            "come before it?",
            _stack(lambda n, trained: 1 + trained[n] + any(trained[: n + 1])),
        ),
        Mistake(
            "Three products for a trained layer, one for a frozen one. Who wants the gradient of "
            "the data, and who waits behind a frozen layer?",
            _stack(lambda n, trained: 1 + 2 * trained[n]),
        ),
    ),
)
