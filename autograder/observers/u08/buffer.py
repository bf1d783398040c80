"""Gradients that are summed in fp32: what the buffers hold, what is left in grad, live bytes."""

import math
from typing import Any

import torch
from torch import Tensor, nn

from autograder.checking import plain_data
from autograder.checking.fact import Case, Fact, Plain
from autograder.checking.precision import is_same_number, tolerance
from autograder.checking.result_form import WrongForm
from autograder.observers.comparing import is_same
from autograder.observers.random_numbers import uniform_numbers
from autograder.observers.tools import errors_as_data, undisturbed
from course_utils.instruments import trace_memory

SUMMED = tolerance("float32", num_terms=16, cancelled=1)  # in fp32, of six gradients at most
# In sizes of one bf16 weight: a gradient or two, one in fp32, a new sum, the activations.
WEIGHTS_AT_ONCE = 8
FROZEN, SHARING = 1, (2, 5)  # layers


def model_of(case: Case) -> nn.Sequential:
    """Layers in bf16, always the same; of some kinds one is frozen, or two share a weight.

    A weight changes places and signs of its inputs alone, so that no sum in bf16 is rounded: each
    number of a gradient is one product, the same on every machine.
    """
    width = case["width"]
    layers = [nn.Linear(width, width, bias=False) for _ in range(case["num_layers"])]
    generator = torch.Generator().manual_seed(width)
    for layer in layers:
        signs = 2.0 * torch.randint(2, (width, 1), generator=generator) - 1
        layer.weight.data = signs * torch.eye(width)[torch.randperm(width, generator=generator)]
    layers[FROZEN].requires_grad_(case["kind"] != "frozen")
    if case["kind"] == "shared":
        one, other = SHARING
        layers[other].weight = layers[one].weight
    return nn.Sequential(*layers).bfloat16()


def inputs_of(case: Case) -> list[Tensor]:
    """The input of each micro-batch."""
    generator = torch.Generator().manual_seed(case["width"] * case["num_micro_batches"])
    shape = (case["num_micro_batches"], 1, case["width"])
    return list(uniform_numbers(shape, generator).bfloat16())


def loss_of(model: nn.Module, x: Tensor) -> Tensor:
    """The loss of a micro-batch."""
    outputs: Tensor = model(x)
    return outputs.square().sum()


@errors_as_data
def observe(answer: Any, case: Case) -> dict[str, Any]:
    """The buffers after all backward passes; bytes before and at the peak of the last one.

    Buffers are made under the trace. The tensors are held as they were returned: what is put into
    the list afterwards is nothing that a caller has.
    """
    model, inputs = model_of(case), inputs_of(case)
    results: list[list[Tensor]] = []

    def step() -> None:
        if not results:
            results.append([*_required(answer(model))])
            for x in inputs[:-1]:
                loss_of(model, x).backward()
        else:
            loss_of(model, inputs[-1]).backward()

    with undisturbed():
        trace = trace_memory(step, model, *inputs, num_steps=2)
    before = next(phase.start for phase in trace.phases if phase.step == 2) - 1
    during = trace.total_bytes[before:]
    return {
        "buffers": [each.detach() for each in results[0]],
        "has_gradient": [each.grad is not None for each in model.parameters()],
        "live_bytes": [during[0], max(during)],
    }


def _required(buffers: Any) -> list[Tensor]:
    if type(buffers) is not list:
        raise WrongForm("a list of tensors", plain_data.describe(buffers))
    for each in buffers:
        if not isinstance(each, Tensor) or each.is_complex():
            raise WrongForm("a list of tensors", f"one with {plain_data.describe(each)}")
    return buffers


def facts(case: Case, observed: Plain, right: Plain) -> list[Fact]:
    """Buffers and sums against the right ones; which is whose is clear only of as many."""
    buffers, sums = observed["buffers"], right["sums"]
    before, peak = observed["live_bytes"]
    pairs = zip(buffers, sums, strict=True) if len(buffers) == len(sums) else ()
    length = math.hypot(*(float(each.double().norm()) for each in buffers))
    is_right = is_same_number(length, right["length"], SUMMED)
    return [
        Fact(
            "buffers",
            len(buffers),
            ask="Print the name of each parameter for which you make a buffer. Which of these ever "
            "get a gradient, and is any parameter there twice or not at all?",
        ),
        Fact(
            "buffers_not_fp32",
            sum(each.dtype != torch.float32 for each in buffers),
            "buffers of another precision than fp32",
            "In which precision is a sum kept, and what decides that where a buffer is made?",
        ),
        Fact(
            "gradients_left",
            sum(observed["has_gradient"]),
            "parameters with a gradient left in grad",
            "What is in `grad` of each parameter after the first backward pass, and what after "
            "later ones? Which line frees it?",
        ),
        Fact(
            "wrong_sums",
            sum(not is_same(ours, theirs.double(), SUMMED) for ours, theirs in pairs),
            "buffers that do not hold the sum of their gradients",
            "Sums are not those of all gradients. To which buffer does each hook add, and how "
            "often?",
        ),
        Fact(
            "length",
            right["length"] if is_right else length,
            "the norm of all buffers together",
            "Add up one number of a gradient by hand over all backward passes. What does the "
            "buffer hold in its place, and in which precision was each addition made?",
        ),
        Fact(
            "gradients_at_once",
            int(peak - before > WEIGHTS_AT_ONCE * 2 * case["width"] ** 2),
            "passes with all bf16 gradients in memory at once",
            "All bf16 gradients are there together. At which moment can one of them go?",
        ),
    ]
