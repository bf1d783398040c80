"""Check of the temporaries of an optimizer step, for three ways to compute AdamW."""

import random
from collections.abc import Callable
from functools import lru_cache

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.optim import AdamW

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo, Mistake
from course_utils.instruments import trace_memory
from course_utils.reference.training import ADAMW

WAYS = [(adamw, is_mixed) for is_mixed in (False, True) for adamw in ADAMW]


def temporary_cases(seed: int) -> list[Case]:
    """One tensor, equal ones, one large among small, many; every way to compute the update."""
    rng = random.Random(seed)
    large, small = rng.randint(100, 999), rng.randint(2, 9)
    lists = [
        [3, 5, 2],
        [rng.randint(10, 99)],
        rng.choice(([large] * 3, [large, large, 1])),
        [small, 1, large, rng.randint(10, 99), 1],
        [rng.randint(1, 500) for _ in range(rng.randint(6, 9))],
    ]
    return [
        {"sizes": sizes, "adamw": adamw, "is_mixed": is_mixed}
        for sizes in lists
        for adamw, is_mixed in WAYS
    ]


def measured_temporary_bytes(sizes: list[int], adamw: str, is_mixed: bool) -> int:
    """The peak of a real update above what is live before and after it."""
    return _traced(tuple(sizes))[adamw, is_mixed]


@lru_cache
def _traced(sizes: tuple[int, ...]) -> dict[tuple[str, bool], int]:
    """All ways, one after the other under one trace; each leaves as much live as it found."""
    updates = [_Update(sizes, *way) for way in WAYS]
    for update in updates:
        update()  # makes the states
    remaining = iter(updates)

    def step() -> None:
        next(remaining)()

    weights = [each for update in updates for each in update.weights]
    optimizers = [each for update in updates for each in update.optimizers]
    trace = trace_memory(step, *weights, *optimizers, num_steps=len(updates))
    assert trace.phases[-1].end_bytes == trace.total_bytes[0]
    return {
        way: trace.peak_bytes_of(number) - trace.total_bytes[0]
        for number, way in enumerate(WAYS, start=1)
    }


class _Update:
    """An update of weights that have gradients, as `Training` makes it."""

    def __init__(self, sizes: tuple[int, ...], adamw: str, is_mixed: bool) -> None:
        dtype = torch.bfloat16 if is_mixed else torch.float32
        self.weights: list[Tensor] = [Parameter(torch.ones(n, dtype=dtype)) for n in sizes]
        for weight in self.weights:
            weight.grad = torch.ones_like(weight)
        masters = [Parameter(w.detach().float()) for w in self.weights]
        pairs = list(zip(self.weights, masters if is_mixed else self.weights, strict=True))
        self.groups = [pairs] if adamw == "foreach" else [[pair] for pair in pairs]
        self.optimizers = [
            AdamW(
                [master for _, master in group],
                foreach=adamw == "foreach",
                fused=adamw == "fused",
            )
            for group in self.groups
        ]

    @torch.no_grad()
    def __call__(self) -> None:
        for group, optimizer in zip(self.groups, self.optimizers, strict=True):
            copies = [(weight, master) for weight, master in group if weight is not master]
            for weight, master in copies:
                assert weight.grad is not None
                master.grad = weight.grad.float()
            optimizer.step()
            for weight, master in copies:
                weight.copy_(master)
                master.grad = None


def temporary_bytes(sizes: list[int], adamw: str, is_mixed: bool) -> int:
    """The course's own answer, under the name that the exercise asks for."""
    tensors_of_update = {"for-loop": 2, "foreach": 1, "fused": 0}[adamw]
    at_once = sum(sizes) if adamw == "foreach" else max(sizes)
    return 4 * at_once * (tensors_of_update + is_mixed)


def _factors(of_largest: tuple[int, ...], of_all: tuple[int, ...]) -> Callable[..., int]:
    """Bytes per number of the largest tensor and of all tensors, for each of `WAYS`."""

    def formula(sizes: list[int], adamw: str, is_mixed: bool) -> int:
        way = WAYS.index((adamw, is_mixed))
        return of_largest[way] * max(sizes) + of_all[way] * sum(sizes)

    return formula


# Right is: of the largest (8, 0, 0, 12, 0, 4), of all (0, 4, 0, 0, 8, 0).
CHECK = Check(
    cases=temporary_cases,
    reference=temporary_bytes,
    judge=EqualTo(
        measured_temporary_bytes,
        Mistake(
            "In a loop the temporaries of all your tensors are live together. When is a root "
            "freed?",
            _factors((0, 0, 0, 0, 0, 4), (8, 4, 0, 12, 8, 0)),
        ),
        Mistake(
            "In a loop the roots and quotients of all your tensors are live together. When is a "
            "root freed?",
            _factors((0, 0, 0, 4, 0, 4), (8, 4, 0, 8, 8, 0)),
        ),
        Mistake(
            "Your `fused` turns all gradients to fp32 at once. When does the exercise free one?",
            _factors((8, 0, 0, 12, 0, 0), (0, 4, 0, 0, 8, 4)),
        ),
        Mistake(
            "You take all tensors at once in every way. Which of the three ways does that?",
            _factors((0, 0, 0, 0, 0, 0), (8, 4, 0, 12, 8, 4)),
        ),
        Mistake(
            "Your `foreach` works on one tensor at a time. How many does it take at once?",
            _factors((8, 4, 0, 12, 8, 4), (0, 0, 0, 0, 0, 0)),
        ),
        Mistake(
            "Your `fused` needs nothing in mixed precision either. What is made before its kernel "
            "runs?",
            _factors((8, 0, 0, 12, 0, 0), (0, 4, 0, 0, 8, 0)),
        ),
        Mistake(
            "In mixed precision you need no more than in fp32. In which precision does the "
            "optimizer want a gradient, and in which is it there?",
            _factors((8, 0, 0, 8, 0, 0), (0, 4, 0, 0, 4, 0)),
        ),
        Mistake(
            "Your copy of a gradient takes 2 bytes a number. In which precision is the copy?",
            _factors((8, 0, 0, 10, 0, 2), (0, 4, 0, 0, 6, 0)),
        ),
        Mistake(
            "Your temporaries of mixed precision are in bf16. In which precision does the "
            "optimizer compute?",
            _factors((8, 0, 0, 6, 0, 2), (0, 4, 0, 0, 4, 0)),
        ),
        Mistake(
            "Your loop needs one temporary for a tensor. Which two does the exercise name?",
            _factors((4, 0, 0, 8, 0, 4), (0, 4, 0, 0, 8, 0)),
        ),
        Mistake(
            "Your `foreach` keeps roots and quotients. Which of the two does it make in place?",
            _factors((8, 0, 0, 12, 0, 4), (0, 8, 0, 0, 12, 0)),
        ),
        Mistake(
            "Your `foreach` makes copies of gradients for one tensor after the other. When does "
            "it need them?",
            _factors((8, 0, 0, 12, 4, 4), (0, 4, 0, 0, 4, 0)),
        ),
        Mistake(
            "Your loop and your kernel turn all gradients to fp32 at once. When does the exercise "
            "free one?",
            _factors((8, 0, 0, 8, 0, 0), (0, 4, 0, 4, 8, 4)),
        ),
    ),
)
