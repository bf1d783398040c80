"""Check of gradients that are summed in fp32, and never all alive at once in bf16."""

import copy
import random
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn

from autograder.checking import plain_data
from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour, Mistake
from autograder.exercises.observing import errors_as_data, undisturbed
from course_utils.instruments import trace_memory
from course_utils.reference.accumulation import sum_in_fp32

FIELDS = ("num_layers", "width", "num_micro_batches", "is_frozen")

# Sums of at most six numbers in fp32: each addition rounds by 6e-8 of a partial sum.
ROUNDING = 1e-5
ROUNDING_OF_BF16 = 2**-5  # at most six additions, each by 2**-8 at most

# In sizes of one bf16 weight: a gradient or two, one in fp32, a new sum, the activations.
WEIGHTS_AT_ONCE = 8
NUM_LAYERS = 12


def buffer_cases(seed: int) -> list[Case]:
    """One micro-batch and many, with and without a frozen layer."""
    rng = random.Random(seed)
    cases = [_case(NUM_LAYERS, 16, 2, False)]
    for num_micro_batches in (2, 1, 2, 1, 6):
        for is_frozen in (False, True, False, True):
            cases.append(_case(NUM_LAYERS, rng.choice((12, 16, 20)), num_micro_batches, is_frozen))
    return cases


def _case(*values: Any) -> Case:
    return dict(zip(FIELDS, values, strict=True))


@lru_cache(maxsize=64)
def _layers(num_layers: int, width: int) -> nn.Sequential:
    layers = [nn.Linear(width, width, bias=False) for _ in range(num_layers)]
    generator = torch.Generator().manual_seed(width)
    for layer in layers:  # scaled so that no gradient is tiny
        nn.init.normal_(layer.weight, std=width**-0.5, generator=generator)
    return nn.Sequential(*layers).bfloat16()


class _Trial:
    """Layers in bf16 and the inputs of all micro-batches, always the same."""

    def __init__(
        self, num_layers: int, width: int, num_micro_batches: int, is_frozen: bool
    ) -> None:
        self.model = copy.deepcopy(_layers(num_layers, width))
        if is_frozen:
            next(self.model[1].parameters()).requires_grad_(False)
        self.weight_bytes = next(self.model.parameters()).nbytes
        generator = torch.Generator().manual_seed(width * num_micro_batches)
        inputs = torch.randn(num_micro_batches, 1, width, generator=generator)
        self.inputs = inputs.bfloat16().unbind()

    def backward(self, x: Tensor) -> None:
        self.model(x).square().sum().backward()

    def trainable(self) -> list[nn.Parameter]:
        return [each for each in self.model.parameters() if each.requires_grad]


@errors_as_data
def observe(answer: Any, case: Case) -> object:
    """What the student's buffers hold after all micro-batches, and the peak of the last one."""
    trial = _Trial(**case)
    with undisturbed():
        buffers, most_bytes = _traced(answer, trial)
        trainable = trial.trainable()
    return {
        "buffers": len(buffers),
        "buffers_not_fp32": sum(each.dtype != torch.float32 for each in buffers),
        "gradients_left": sum(each.grad is not None for each in trainable),
        **_wrong_sums(buffers, *_sums(*case.values())),
        "gradients_at_once": int(most_bytes > WEIGHTS_AT_ONCE * trial.weight_bytes),
    }


def _traced(answer: Any, trial: _Trial) -> tuple[list[Tensor], int]:
    """Buffers after all backward passes, and the peak bytes that the last one added.

    Buffers are made under the trace, so that only the student's code keeps them alive.
    """
    results: list[list[Tensor]] = []

    def step() -> None:
        if results:
            trial.backward(trial.inputs[-1])
            return
        buffers = answer(trial.model)
        _require_tensors(buffers)
        results.append(buffers)
        for x in trial.inputs[:-1]:
            trial.backward(x)

    trace = trace_memory(step, trial.model, *trial.inputs, num_steps=2)
    before = next(phase.start for phase in trace.phases if phase.step == 2) - 1
    during = trace.total_bytes[before:]
    return results[0], max(during) - during[0]


def _require_tensors(buffers: object) -> None:
    if type(buffers) is not list:
        raise TypeError(f"wanted a list of tensors, got {plain_data.describe(buffers)}")
    for each in buffers:
        if not isinstance(each, Tensor):
            raise TypeError(f"wanted a list of tensors, got one with {plain_data.describe(each)}")


def _wrong_sums(buffers: list[Tensor], sums: list[Tensor], last: list[Tensor]) -> dict[str, int]:
    """How many buffers hold something else, and how many of these a known kind."""
    counts = {"last_gradient_alone": 0, "rounded_sums": 0, "wrong_sums": 0}
    for mine, right, newest in zip(buffers, sums, last, strict=False):
        if len(buffers) != len(sums) or _is_near(mine, right, ROUNDING):
            continue
        counts["wrong_sums"] += 1
        if _is_near(mine, newest, ROUNDING):
            counts["last_gradient_alone"] += 1
        elif _is_near(mine, right, ROUNDING_OF_BF16) and mine.equal(mine.bfloat16().to(mine.dtype)):
            counts["rounded_sums"] += 1
    return counts


def _is_near(mine: Tensor, other: Tensor, tolerance: float) -> bool:
    if mine.shape != other.shape:
        return False
    return bool((mine.double() - other).norm() <= tolerance * other.norm())


@lru_cache(maxsize=512)
def _sums(*values: Any) -> tuple[list[Tensor], list[Tensor]]:
    """Float64 sums of each micro-batch's bf16 gradients, and the gradients of the last one."""
    trial = _Trial(*values)
    sums = [torch.zeros_like(each, dtype=torch.float64) for each in trial.trainable()]
    last = sums
    for x in trial.inputs:
        gradients = torch.autograd.grad(trial.model(x).square().sum(), trial.trainable())
        last = [gradient.double() for gradient in gradients]
        for total, gradient in zip(sums, last, strict=True):
            total.add_(gradient)
    return sums, last


def wanted(**case: Any) -> dict[str, int]:
    """A buffer in fp32 for each trainable parameter, and no gradient left."""
    return {
        "buffers": case["num_layers"] - case["is_frozen"],
        "buffers_not_fp32": 0,
        "gradients_left": 0,
        "last_gradient_alone": 0,
        "rounded_sums": 0,
        "wrong_sums": 0,
        "gradients_at_once": 0,
    }


def _num_trainable(*values: Any) -> int:
    return int(values[0] - values[3])


CHECK = Check(
    cases=buffer_cases,
    reference=sum_in_fp32,
    observe=observe,
    judge=Behaviour(
        wanted,
        Mistake(
            "There is a buffer for frozen parameters, too. Which of them ever get a gradient?",
            lambda *values: {"buffers": values[0]},
        ),
        Mistake(
            "Your buffers have the precision of the parameters. Which one should a sum of many "
            "small numbers have?",
            lambda *values: {"buffers_not_fp32": _num_trainable(*values)},
        ),
        Mistake(
            "The gradients are still there after backward. Who needs them when they are in the "
            "buffer?",
            lambda *values: {"gradients_left": _num_trainable(*values)},
        ),
        Mistake(
            "Your buffers hold the gradients of the last backward pass alone. What happens to "
            "what was in a buffer before?",
            lambda *values: {"last_gradient_alone": _num_trainable(*values), "gradients_left": 0},
        ),
        Mistake(
            "Your sums are rounded to bf16 before they go into the buffer. In which precision is "
            "the addition itself?",
            lambda *values: {"rounded_sums": _num_trainable(*values), "gradients_left": 0},
        ),
        Mistake(
            "No buffer holds the sum of its gradients over all micro-batches. When does your code "
            "run, how often, and into which buffer does each hook add?",
            lambda *values: {
                "wrong_sums": _num_trainable(*values),
                "gradients_left": 0,
                "last_gradient_alone": 0,
                "rounded_sums": 0,
            },
        ),
        Mistake(
            "The sums are right, and all gradients in bf16 are there at once before you free "
            "them. When is the first moment at which one of them can go?",
            lambda *values: {"gradients_at_once": 1, "wrong_sums": 0},
        ),
    ),
)
