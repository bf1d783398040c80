"""What is observed of an SGD step on fp32 master weights: tensors, gradients, memory."""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from autograder.checking.fact import Case, Fact, Plain
from autograder.checking.precision import tolerance
from autograder.observers.comparing import is_same
from autograder.observers.tools import errors_as_data, undisturbed
from course_utils.instruments import trace_memory

# Subtracting a product rounds twice in fp32, or once where it is fused: a few roundings of 6e-8 in
# all steps. A product rounded to bf16 is off by up to 4e-3 of itself.
STEPPED = tolerance("float32", num_terms=2, cancelled=1)  # by a few steps of SGD


@dataclass(frozen=True)
class Trial:
    """Masters as they begin, weights that may differ from them, and the gradients of all steps.

    Attributes:
        start: Masters in fp32, one in each row.
        weights: In bf16, leaves.
        factors: Gradients by step and weight, in bf16.
        idle: Which weight has no gradient, if one has none.
    """

    start: Tensor
    weights: list[nn.Parameter]
    factors: Tensor
    idle: int | None


def trial_of(case: Case) -> Trial:
    """What a case begins with."""
    num_weights, num_numbers, num_steps = (
        case[name] for name in ("num_weights", "num_numbers", "num_steps")
    )
    generator = torch.Generator().manual_seed(100 * num_weights + num_numbers + num_steps)
    shape = (num_steps + 1, num_weights, num_numbers)
    numbers = 0.5 + 1.5 * torch.rand(shape, generator=generator)
    # each step's factors are its gradients; the case by hand has ones
    start, *factors = numbers if num_numbers > 1 else torch.ones(shape)
    weights = [nn.Parameter(each.bfloat16()) for each in start]
    idle = idle_index(case)
    if idle is not None:  # so that rounding its master into it shows
        weights[idle].data *= 2
    return Trial(start, weights, torch.stack(factors).bfloat16(), idle)


def idle_index(case: Case) -> int | None:
    """Which weight has no gradient: by turns the last, the first, one in the middle."""
    if case["scenario"] != "one without gradient":
        return None
    num_weights: int = case["num_weights"]
    places: tuple[int, ...] = (num_weights - 1, 0, num_weights // 2)
    turn: int = case["num_steps"] + 1
    return places[turn % len(places)]


@errors_as_data
def observe(answer: Any, case: Case) -> dict[str, Any]:
    """Tensors after all steps, whose grad is left, addresses, and bytes in the last step."""
    trial = trial_of(case)
    weights, masters = trial.weights, [each.clone() for each in trial.start]
    tensors = [*weights, *masters]
    # kept alive, so that no new tensor gets the memory of a replaced one
    storages = [each.untyped_storage() for each in tensors]
    frozen: list[bool] = []

    def update() -> None:
        torch.ones(())  # an update without any operation cannot be traced
        answer(list(weights), list(masters), case["learning_rate"])
        frozen.extend(not each.requires_grad for each in weights)
        for each in weights:
            each.requires_grad_()

    with undisturbed():
        for factors in trial.factors[:-1]:
            _backward(trial, factors)
            update()
        _backward(trial, trial.factors[-1])
        trace = trace_memory(update, *tensors)
    return {
        "weights": [each.detach() for each in weights],
        "masters": [each.detach() for each in masters],
        "frozen": frozen,
        "has_gradient": [each.grad is not None for each in tensors],
        "addresses": [
            [storage.data_ptr(), each.untyped_storage().data_ptr()]
            for storage, each in zip(storages, tensors, strict=True)
        ],
        "working_bytes": max(trace.working_bytes),
    }


def _backward(trial: Trial, factors: Tensor) -> None:
    """Add these factors to the gradients."""
    pairs = enumerate(zip(trial.weights, factors, strict=True))
    losses = [(weight * each).sum() for number, (weight, each) in pairs if number != trial.idle]
    torch.stack(losses).sum().backward()


def facts(case: Case, observed: Plain, right: Plain) -> list[Fact]:
    """How many tensors have each flaw, and how far the masters have moved."""
    trial = trial_of(case)
    trained = [n for n in range(len(trial.weights)) if n != trial.idle]
    weights, masters = observed["weights"], observed["masters"]
    is_right = [is_same(masters[n], right["masters"][n], STEPPED) for n in trained]
    follows = [_is_same(weights[n], masters[n].bfloat16()) for n in trained]
    stays = [_is_same(weights[n], trial.weights[n]) for n in trained]
    num_idle_changed = sum(
        not (_is_same(masters[n], trial.start[n]) and _is_same(weights[n], trial.weights[n]))
        for n in range(len(trial.weights))
        if n == trial.idle
    )
    return [
        Fact(
            "way",
            _way(trial, masters, right["masters"]),
            "the masters' move, as a multiple of the right one",
            "By how much should each master change in one step, and which of your lines changes "
            "the tensor in `masters` itself?",
        ),
        Fact(
            "wrong_masters",
            is_right.count(False),
            "wrong masters",
            "The masters are not where fp32 steps lead. What is subtracted from each of them, and "
            "in which precision?",
        ),
        Fact(
            "gradients_left",
            sum(observed["has_gradient"]),
            "gradients not freed",
            "What does `.grad` of each weight and of each master hold when `update` returns, and "
            "which line frees it?",
        ),
        Fact(
            "in_fp32",
            sum(each.dtype != torch.bfloat16 for each in weights),
            "weights in fp32",
            "Which type does each weight have before and after `update`, and which of your lines "
            "changes more of a weight than its numbers?",
        ),
        Fact(
            "moved",
            sum(before != after for before, after in observed["addresses"]),
            "tensors in new memory",
            "Compare `data_ptr()` of every weight and master before and after `update`. Which of "
            "your lines gives one of them new memory?",
        ),
        Fact(
            "frozen",
            sum(observed["frozen"]),
            "weights that no longer require a gradient",
            "Weights no longer require a gradient. Which line of yours turns that off?",
        ),
        Fact(
            "wrong_weights",
            follows.count(False),
            "weights that are not their masters rounded",
            "Weights are not their masters rounded. When are they written, and from what?",
        ),
        Fact(
            "weights_elsewhere",
            sum(not (f or s) for f, s in zip(follows, stays, strict=True)),
            "weights that change otherwise",
            "Which of your lines write to a weight, and where do the numbers that they write come "
            "from?",
        ),
        Fact(
            "idle_changed",
            num_idle_changed,
            "weights changed without a gradient",
            "A weight with no gradient or its master changed. Which line does it?",
        ),
        Fact(
            "too_much",
            int(observed["working_bytes"] > right["most_working_bytes"][0]),
            "Too many gradients are in fp32 at once.",
            "How many tensors in fp32 has `update` made when it comes to the last weight, and how "
            "many of them are still alive?",
        ),
    ]


def _is_same(one: Tensor, other: Tensor) -> bool:
    return one.dtype == other.dtype and torch.equal(one, other)


def _way(trial: Trial, masters: list[Tensor], right: Tensor) -> float:
    """How far all masters have moved together, over how far they should have."""
    sums = (math.fsum(each.double().sum().item() for each in ends) for ends in (masters, right))
    start = trial.start.double().sum().item()
    moved, should_have = (start - each for each in sums)
    return round(moved / should_have, 3)
