"""Check of the bytes live at the end of each phase of a training step."""

import random
from functools import lru_cache

import torch
from torch import Tensor, nn
from torch.optim import AdamW

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.exercises.model_answers import mistakes_of
from course_utils.instruments import fake_tensors, trace_memory

NAMES = ("num_params", "num_tensors", "kept_bytes", "step", "is_grad_freed")
MOST_STEPS = 4

Moments = dict[str, int]


def moment_cases(seed: int) -> list[Case]:
    """First and later steps; gradients freed or set to zero; one tensor and several.

    The last have more bytes than a float counts.
    """
    rng = random.Random(seed)
    models = [(rng.randint(10, 99), 2, 4 * rng.randint(5, 60))]
    models.append((rng.randint(2, 9), 1, 4 * rng.randint(5, 60)))
    models.append((rng.randint(100, 999), rng.randint(3, 9), 4 * rng.randint(5, 400)))
    sizes = [(10, 2, 100, 1, True)]
    for model in models:
        for is_grad_freed in (True, False):
            for step in (1, 2, rng.randint(3, MOST_STEPS)):
                sizes.append((*model, step, is_grad_freed))
    huge = (2**52 + 2 * rng.randint(1, 999) + 1, 3, 4 * rng.randint(2**31, 2**32))
    sizes += [(*huge, MOST_STEPS, flag) for flag in (True, False)]
    return [dict(zip(NAMES, each, strict=True)) for each in sizes]


def measured_moments(
    num_params: int, num_tensors: int, kept_bytes: int, step: int, is_grad_freed: bool
) -> Moments:
    """Live bytes at the end of each phase, from a trace of real training steps."""
    return _traced(num_params, num_tensors, kept_bytes, is_grad_freed)[step - 1]


@lru_cache
def _traced(num_params: int, num_tensors: int, kept_bytes: int, is_freed: bool) -> list[Moments]:
    """Moments of the first steps of a real training run.

    Its forward pass multiplies a weight with data of ``kept_bytes``, less two numbers: the loss and
    its gradient are live then too.
    """
    with fake_tensors():
        return _of_training(num_params, num_tensors, kept_bytes, is_freed)


def _of_training(
    num_params: int, num_tensors: int, kept_bytes: int, is_freed: bool
) -> list[Moments]:
    sizes = [num_params - num_tensors + 1] + [1] * (num_tensors - 1)
    weights = nn.ParameterList(torch.ones(size) for size in sizes)
    optimizer = AdamW(weights, foreach=False)

    def loss() -> Tensor:
        data = torch.ones(kept_bytes // 4 - 2)
        sums = [weight.sum() for weight in weights]
        return torch.stack([(weights[0][:1] * data).sum(), *sums]).sum()

    def step() -> None:
        loss().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=is_freed)

    trace = trace_memory(step, weights, optimizer, num_steps=MOST_STEPS)
    live = [trace.total_bytes[0], *(phase.end_bytes for phase in trace.phases)]
    names = ("before_forward", "after_forward", "after_backward", "after_step")
    return [dict(zip(names, live[3 * n :], strict=False)) for n in range(MOST_STEPS)]


CHECK = Check(
    cases=moment_cases,
    judge=EqualTo(measured_moments, *mistakes_of("u04-moments")),
    fallback="course_utils.formulas.memory_over_time.live_at_moments",
)
