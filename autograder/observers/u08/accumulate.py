"""Accumulation over micro-batches: loss, gradients, passes, and bytes at the peak."""

import math
from collections import Counter
from typing import Any

import torch
from torch import Tensor, nn

from autograder.checking import plain_data
from autograder.checking.fact import Case, Fact, Plain
from autograder.checking.result_form import WrongForm
from autograder.observers.comparing import num_different
from autograder.observers.tools import (
    errors_as_data,
    length_of,
    require_one_number,
    undisturbed,
)
from autograder.observers.u08.ragged_batches import (
    batch_of,
    micro_batches_held,
    model_of,
    sequences_too_many,
    times_too_much,
)
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


def facts(case: Case, observed: Plain, right: Plain) -> list[Fact]:
    """Loss and gradients against the whole batch's, passes, and what is held too much.

    Bytes above those needed are counted in micro-batches or in sets of gradients, whichever is
    larger, so that the other one disappears in the rounding.
    """
    gradients, sizes = observed["gradients"], observed["sizes"]
    num_needed, num_all = right["passes"]
    loss, length = observed["loss"], length_of(gradients)
    is_new = [
        old is None and new is not None for old, new in zip(right["before"], gradients, strict=True)
    ]
    held = {"micro_batches_held": 0, "gradients_held": 0}
    if case["scenario"] == "memory":
        needed, *units = right["bytes"]
        name, unit = max(zip(held, units, strict=True), key=lambda pair: pair[1])
        held[name] = times_too_much(observed["peak_bytes"] - needed, unit)
    batch = batch_of(case["lengths"], case["vocab_size"])
    ask_of_gradients = (
        "Gradients are wrong. By what is each loss divided, and what happens to earlier gradients?"
    )
    return [
        Fact(
            "changed_batch",
            int(not all(map(torch.equal, batch, observed["batch"]))),
            "changes to ids or targets (0 no, 1 yes)",
            "Which of your lines writes into `ids` or `targets`, or into a slice that shares "
            "memory with one of them?",
        ),
        Fact(
            "not_numbers",
            int(math.isnan(loss) or math.isnan(length)),
            "nan or inf in the loss or a gradient (0 no, 1 yes)",
            "Print the loss and the gradients after each micro-batch. Where does the first nan "
            "appear, and which mean or which division gives it?",
        ),
        Fact(
            "loss",
            _zero_if_nan(loss),
            "the loss that is returned",
            "The loss that you return is wrong. Over which targets is it a mean?",
        ),
        Fact(
            "gradient_length",
            _zero_if_nan(length),
            "the norm of what is in grad",
            ask_of_gradients,
        ),
        Fact(
            "wrong_gradients",
            num_different(gradients, right["gradients"]),
            "parameters with a wrong gradient in grad",
            ask_of_gradients,
        ),
        Fact(
            "new_gradients",
            0 if num_needed else sum(is_new),
            "gradients that are made without any target",
            "No target of this batch counts. Which of your lines still puts a tensor into `grad` "
            "where there was None?",
        ),
        sequences_too_many(max(0, max(sizes, default=0) - case["micro_batch_size"])),
        Fact(
            "passes_missing",
            max(0, num_needed - len(sizes)),
            "missing forward passes",
            "How many micro-batches with targets does the batch have, and which of them do you "
            "not hand to `model(…)`?",
        ),
        Fact(
            "passes_too_many",
            max(0, len(sizes) - num_all),
            "forward passes too many",
            "Print which sequences each call of the model gets. Which of them come twice, or in a "
            "smaller micro-batch than the exercise asks for?",
        ),
        Fact(
            "other_sizes",
            (Counter(sizes) - Counter(right["sizes"])).total(),
            "passes of other sizes than full micro-batches and the remainder",
            "How many sequences does each call of the model get, and how many are left over for "
            "the last micro-batch?",
        ),
        micro_batches_held(held["micro_batches_held"]),
        Fact(
            "gradients_held",
            held["gradients_held"],
            "sets of gradients that are kept needlessly",
            "Which tensors as large as all gradients together exist besides `grad`, and which of "
            "your lines makes them?",
        ),
    ]


def _zero_if_nan(number: float) -> float:
    return 0.0 if math.isnan(number) else number
