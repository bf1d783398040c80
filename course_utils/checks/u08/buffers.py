"""Check of gradients that are summed in fp32, and never all there in bf16."""

import random
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn

from course_utils.checks import wire
from course_utils.checks.check import Case, Check
from course_utils.checks.counted import tells_errors, undisturbed
from course_utils.checks.judges import Behaviour, Mistake
from course_utils.instruments import trace_memory
from course_utils.reference.accumulation import sum_in_fp32

FIELDS = ("num_layers", "width", "num_micro_batches", "is_frozen")

# Sums of at most six numbers in fp32: each addition rounds by 6e-8 of a partial sum.
ROUNDING = 1e-5

# As large as weights in bf16: a gradient or two, one in fp32, a new sum, the activations.
WEIGHTS_AT_ONCE = 8
NUM_LAYERS = 12


def buffer_cases(seed: int) -> list[Case]:
    """One micro-batch and many, a frozen layer among the others."""
    rng = random.Random(seed)
    counts = [2, 1, 2, 3, 6]
    cases = [_case(NUM_LAYERS, 16, 2, False)]
    for num_micro_batches in counts:
        for is_frozen in (False, True, False, True):
            cases.append(_case(NUM_LAYERS, rng.choice((12, 16, 20)), num_micro_batches, is_frozen))
    return cases


def _case(*values: Any) -> Case:
    return dict(zip(FIELDS, values, strict=True))


class _Trial:
    """Layers in bf16 and the inputs of all micro-batches, always the same."""

    def __init__(
        self, num_layers: int, width: int, num_micro_batches: int, is_frozen: bool
    ) -> None:
        with torch.random.fork_rng([]):
            torch.manual_seed(width * num_micro_batches)
            layers = [nn.Linear(width, width, bias=False) for _ in range(num_layers)]
            for layer in layers:
                nn.init.normal_(layer.weight, std=width**-0.5)  # so that no gradient is tiny
            self.inputs = torch.randn(num_micro_batches, 1, width).bfloat16().unbind()
        self.model = nn.Sequential(*layers).bfloat16()
        if is_frozen:
            layers[1].weight.requires_grad_(False)
        self.weight_bytes = layers[0].weight.nbytes

    def backward(self, x: Tensor) -> None:
        self.model(x).square().sum().backward()

    def wanting(self) -> list[nn.Parameter]:
        return [each for each in self.model.parameters() if each.requires_grad]


@tells_errors
def probe(answer: Any, case: Case) -> object:
    """What the student's buffers hold after all micro-batches, and what lived beside them."""
    trial = _Trial(**case)
    with undisturbed():
        buffers = answer(trial.model)
        wanting = trial.wanting()
        _require_tensors(buffers)
        given = [each for each in buffers if each.untyped_storage().nbytes()]
        for x in trial.inputs[:-1]:
            trial.backward(x)
        last = trial.inputs[-1]
        trace = trace_memory(lambda: trial.backward(last), trial.model, last, *given)
    most_bytes = max(trace.total_bytes) - trace.total_bytes[0]
    return {
        "buffers": len(buffers),
        "buffers_not_fp32": sum(each.dtype != torch.float32 for each in buffers),
        "gradients_left": sum(each.grad is not None for each in wanting),
        "wrong_sums": _num_wrong(buffers, _sums(*case.values()))
        if len(buffers) == len(wanting)
        else 0,
        "gradients_at_once": int(most_bytes > WEIGHTS_AT_ONCE * trial.weight_bytes),
    }


def _require_tensors(buffers: object) -> None:
    if type(buffers) is not list:
        raise TypeError(f"wanted a list of tensors, got {wire.describe(buffers)}")
    for each in buffers:
        if not isinstance(each, Tensor):
            raise TypeError(f"wanted a list of tensors, got one with {wire.describe(each)}")


def _num_wrong(buffers: list[Tensor], sums: list[Tensor]) -> int:
    return sum(
        mine.shape != wanted_sum.shape
        or bool((mine.double() - wanted_sum).norm() > ROUNDING * wanted_sum.norm())
        for mine, wanted_sum in zip(buffers, sums, strict=True)
    )


@lru_cache(maxsize=512)
def _sums(*values: Any) -> list[Tensor]:
    """In float64, of the gradients of each micro-batch in bf16."""
    trial = _Trial(*values)
    sums = [torch.zeros_like(each, dtype=torch.float64) for each in trial.wanting()]
    for x in trial.inputs:
        gradients = torch.autograd.grad(trial.model(x).square().sum(), trial.wanting())
        for total, gradient in zip(sums, gradients, strict=True):
            total.add_(gradient.double())
    return sums


def wanted(**case: Any) -> dict[str, int]:
    """A buffer in fp32 for each parameter that wants a gradient, and nothing else left."""
    return {
        "buffers": case["num_layers"] - case["is_frozen"],
        "buffers_not_fp32": 0,
        "gradients_left": 0,
        "wrong_sums": 0,
        "gradients_at_once": 0,
    }


def _num(*values: Any) -> int:
    return int(values[0] - values[3])


SUM_IN_FP32 = Check(
    cases=buffer_cases,
    reference=sum_in_fp32,
    probe=probe,
    judge=Behaviour(
        wanted,
        Mistake(
            "There is a buffer for frozen parameters, too. Which of them ever get a gradient?",
            lambda *values: {"buffers": values[0]},
        ),
        Mistake(
            "Your buffers have the precision of the parameters. Which one should a sum of many "
            "small numbers have?",
            lambda *values: {"buffers_not_fp32": _num(*values)},
        ),
        Mistake(
            "The gradients are still there after backward. Who needs them when they are in the "
            "buffer?",
            lambda *values: {"gradients_left": _num(*values)},
        ),
        Mistake(
            "No buffer holds the sum of its gradients over all micro-batches. When does your code "
            "run, how often, and into which buffer does each hook add?",
            lambda *values: {"wrong_sums": _num(*values), "gradients_left": 0},
        ),
        Mistake(
            "The sums are right, and all gradients in bf16 are there at once before you free "
            "them. When is the first moment at which one of them can go?",
            lambda *values: {"gradients_at_once": 1, "wrong_sums": 0},
        ),
    ),
)
