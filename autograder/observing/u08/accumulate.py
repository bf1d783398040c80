"""Accumulation over micro-batches: loss, gradients, passes, and bytes at the peak."""

import math
from collections import Counter
from typing import Any

import torch
from torch import Tensor, nn

from autograder.checking import plain_data
from autograder.checking.exercise_check import Case
from autograder.checking.plain_data import Plain
from autograder.checking.result_form import WrongForm
from autograder.observing.comparing import num_different
from autograder.observing.observation import (
    errors_as_data,
    length_of,
    require_one_number,
    undisturbed,
)
from autograder.observing.u08.ragged_batches import batch_of, model_of, times_too_much
from course_utils.instruments import trace_memory

WITH_GRADIENTS = ("existing gradients", "memory")


def prepared(case: Case) -> tuple[nn.Module, Tensor, Tensor]:
    """Model, ids and targets; in some scenarios weights have gradients, or all but the first."""
    model = model_of(case["width"], case["vocab_size"])
    for number, parameter in enumerate(model.parameters()):
        if case["scenario"] in WITH_GRADIENTS and (number or case["micro_batch_size"] == 1):
            parameter.grad = torch.sin(parameter.detach())
    return model, *batch_of(case["lengths"], case["vocab_size"])


@errors_as_data
def observe(answer: Any, case: Case) -> dict[str, Any]:
    """What the answer returned, what is in ``grad``, all passes, and the peak where it counts."""
    model, ids, targets = prepared(case)
    sizes: list[int] = []
    model.register_forward_pre_hook(lambda _, inputs: sizes.append(len(inputs[0])))
    losses: list[Any] = []

    def call() -> None:
        torch.zeros(())  # an answer without any operation cannot be traced
        losses.append(answer(model, ids, targets, case["micro_batch_size"]))

    peak_bytes = 0
    with undisturbed():
        if case["scenario"] == "memory":
            peak_bytes = trace_memory(call, model).peak_bytes
        else:
            call()
    (loss,) = losses
    if isinstance(loss, Tensor):
        raise WrongForm("a float", plain_data.describe(loss))
    return {
        "loss": require_one_number(loss, "a float"),
        "gradients": [each.grad for each in model.parameters()],
        "sizes": sizes,
        "batch": [ids, targets],
        "peak_bytes": peak_bytes,
    }


def summarise(case: Case, observed: Plain, right: Plain) -> dict[str, float]:
    """Loss and gradients against the whole batch's, passes, and what is held too much.

    Bytes above those needed are counted in micro-batches or in sets of gradients, whichever is
    larger, so that the other one disappears in the rounding.
    """
    gradients, sizes = observed["gradients"], observed["sizes"]
    num_needed, num_all = right["passes"]
    numbers = {"loss": observed["loss"], "gradient_length": length_of(gradients)}
    is_new = [
        old is None and new is not None for old, new in zip(right["before"], gradients, strict=True)
    ]
    held = {"micro_batches_held": 0, "gradients_held": 0}
    if case["scenario"] == "memory":
        needed, *units = right["bytes"]
        name, unit = max(zip(held, units, strict=True), key=lambda pair: pair[1])
        held[name] = times_too_much(observed["peak_bytes"] - needed, unit)
    batch = batch_of(case["lengths"], case["vocab_size"])
    return {
        "changed_batch": int(not all(map(torch.equal, batch, observed["batch"]))),
        "not_numbers": int(any(map(math.isnan, numbers.values()))),
        **{name: 0.0 if math.isnan(each) else each for name, each in numbers.items()},
        "wrong_gradients": num_different(gradients, right["gradients"]),
        "new_gradients": 0 if num_needed else sum(is_new),
        "sequences_too_many": max(0, max(sizes, default=0) - case["micro_batch_size"]),
        "passes_missing": max(0, num_needed - len(sizes)),
        "passes_too_many": max(0, len(sizes) - num_all),
        "other_sizes": (Counter(sizes) - Counter(right["sizes"])).total(),
        **held,
    }
