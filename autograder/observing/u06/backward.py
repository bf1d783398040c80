"""Causal attention as an autograd function: gradients, what it keeps, FLOPs and tensors."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from autograder.checking.exercise_check import Case
from autograder.checking.plain_data import Plain
from autograder.observing.checksums import checksum, wrong_rows
from autograder.observing.observation import (
    errors_as_data,
    num_different,
    require_tensor,
    undisturbed,
    upstream,
)
from autograder.observing.u03.kept import kept_bytes, observe_kept, observe_numbers, random_tensors
from course_utils.instruments import count_flops, trace_memory
from course_utils.reference.tiled_forward import tiled_forward

APART, PARTS, FROZEN = "three tensors", "parts of one tensor", "values without a gradient"
QKV = ("q", "k", "v")
LABELS = {
    "wrong_rows": "rows of the result that are wrong",
    "changed_inputs": "inputs that are other numbers afterwards",
    **{f"wrong_d{name}": f"rows of the gradient of {name} that are wrong" for name in QKV},
    **{f"d{name}_checksum": f"the weighted sum of the gradient of {name}" for name in QKV},
    "calls_of_forward": "calls of `forward` in both passes",
    "saved_bytes": "the bytes that autograd keeps",
    "copied_bytes": "the bytes of what autograd keeps beside q, k and v",
    "unseen_bytes": "the bytes that live on where autograd does not see them",
    "square_tensors": "There is a tensor of s × s numbers or more.",
    "forward_flops": "FLOPs of the forward pass",
    "backward_flops": "FLOPs of the backward pass",
}


def inputs_of(case: Case) -> list[Tensor]:
    """Queries, keys and values, which are no leaves of the graph."""
    shape = (*case["heads"], case["seq_len"], case["head_dim"])
    seed = 100 * case["seq_len"] + case["block"]
    if case["kind"] == PARTS:
        (whole,) = random_tensors(seed, (*shape[:-1], 3 * shape[-1]))
        return [*(whole.requires_grad_() * 1).chunk(3, -1)]
    tensors = [each.requires_grad_() * 1 for each in random_tensors(seed, *(shape,) * 3)]
    if case["kind"] == FROZEN:
        tensors[2] = tensors[2].detach()
    return tensors


class _Trial:
    """The answer with its tile and the given forward pass.

    Attributes:
        calls: Of the given forward pass.
        results: What the answer returned in each run.
    """

    def __init__(self, answer: Any, case: Case) -> None:
        self.answer, self.block, self.calls = answer, case["block"], 0
        self.results: list[Tensor] = []

    def __call__(self, *inputs: Tensor) -> Tensor:
        q, k, v = inputs

        def forward(q: Tensor, k: Tensor, v: Tensor, block: int) -> tuple[Tensor, Tensor]:
            self.calls += 1
            return tiled_forward(q, k, v, block)

        result = require_tensor(self.answer(forward, q, k, v, self.block))
        with torch._C._DisableTorchDispatch():
            self.results.append(result.detach().clone())
        return result


@errors_as_data
def observe(answer: Any, case: Case) -> dict[str, Any]:
    """Numbers of one run, bytes of a second, FLOPs of a third, tensors of a fourth.

    All of them have to give the same results, and those with a backward pass the same gradients.
    """
    trial = _Trial(answer, case)
    with undisturbed():
        numbers = observe_numbers(trial, inputs_of(case))
        first = [None if each is None else each.clone() for each in numbers["gradients"]]
        calls = trial.calls
        kept = observe_kept(trial, inputs_of(case))
        counted, traced = (_retaining(inputs_of(case)) for _ in range(2))
        forward_flops, backward_flops = count_flops(lambda: _weighted(trial(*counted)))
        made_bytes = _made_bytes(trial, traced)
        gradients = ([e.grad for e in run if e.requires_grad] for run in (counted, traced))
        other = sum(num_different([each], trial.results[:1]) for each in trial.results)
        return {
            **numbers,
            "calls": calls,
            **kept,
            "forward_flops": forward_flops,
            "backward_flops": backward_flops,
            "made_bytes": made_bytes,
            "other_runs": other + sum(num_different(each, first) for each in gradients),
        }


def _retaining(inputs: list[Tensor]) -> list[Tensor]:
    """Inputs that keep their gradients."""
    for each in inputs:
        if each.requires_grad:
            each.retain_grad()
    return inputs


def _weighted(result: Tensor) -> Tensor:
    """What a gradient of ones goes through to become `upstream`."""
    return result * upstream(result) if result.requires_grad else result


def _made_bytes(trial: _Trial, inputs: Sequence[Tensor]) -> list[int]:
    """Bytes of every storage that the two passes make."""

    def step() -> None:
        result = trial(*inputs)
        if result.requires_grad:
            result.backward(upstream(result))

    return [each.storage_bytes for each in trace_memory(step, *inputs).storages if each.born]


def summarise(case: Case, observed: Plain, right: Plain) -> dict[str, float]:
    """Rows and gradients beside the right ones, bytes, and FLOPs where all gradients are wanted."""
    names = [name for name, each in zip(QKV, right["gradients"], strict=False) if each is not None]
    ours = dict(zip(names, observed["gradients"], strict=True))
    theirs = dict(zip(names, right["gradients"], strict=True))
    missing = {name: torch.zeros_like(theirs[name]) for name in names if ours[name] is None}
    ours |= missing
    square_bytes = 8 * case["seq_len"] ** 2
    is_seen = 2 * case["block"] <= case["seq_len"] and case["kind"] == APART
    return {
        "wrong_rows": wrong_rows(observed["result"], right["result"]) + observed["other_runs"],
        "changed_inputs": sum(map(bool, observed["writes"])),
        **{f"wrong_d{name}": wrong_rows(ours[name], theirs[name]) for name in names},
        **{f"d{name}_checksum": checksum(ours[name], theirs[name]) for name in names},
        "calls_of_forward": observed["calls"],
        **kept_bytes(observed),
        "square_tensors": int(is_seen and max(observed["made_bytes"]) >= square_bytes),
        "forward_flops": observed["forward_flops"],
        "backward_flops": _backward_flops(case, observed, right),
    }


def _backward_flops(case: Case, observed: Plain, right: Plain) -> int:
    """FLOPs of the backward pass where all gradients are wanted.

    A row sum may be written as a product, which is counted: once for all of them.
    """
    wanted, counted = int(right["backward_flops"]), int(observed["backward_flops"])
    of_row_sums = 2 * right["result"].numel()
    is_right = case["kind"] == FROZEN or counted == wanted + of_row_sums
    return wanted if is_right else counted
