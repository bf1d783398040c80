"""Causal attention as an autograd function: gradients, what it keeps, FLOPs and tensors."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from autograder.checking.exercise_check import Case
from autograder.checking.plain_data import Plain
from autograder.observing.checksums import checksum, wrong_rows
from autograder.observing.comparing import num_different
from autograder.observing.observation import errors_as_data, require_tensor, undisturbed
from autograder.observing.u03.kept import (
    gradients_of,
    kept_bytes,
    observe_kept,
    observe_numbers,
    random_tensors,
)
from course_utils.instruments.flop_count import operation_flops
from course_utils.instruments.operands import tensors_in
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


class _Work(TorchDispatchMode):
    """What the operations of both passes do.

    Attributes:
        flops: Of their matrix products.
        largest_bytes: Of the largest storage among their results.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.flops = self.largest_bytes = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        self.flops += operation_flops(func, args, dict(kwargs or {}), result)
        sizes = [each.untyped_storage().nbytes() for each in tensors_in(result)]
        self.largest_bytes = max(self.largest_bytes, *sizes, 0)
        return result


@errors_as_data
def observe(answer: Any, case: Case) -> dict[str, Any]:
    """Numbers of one run, bytes of a second, FLOPs and the largest tensor of a third.

    All of them have to give the same results, and those with a backward pass the same gradients.
    """
    trial = _Trial(answer, case)
    with undisturbed():
        numbers = observe_numbers(trial, inputs_of(case))
        first = [None if each is None else each.clone() for each in numbers["gradients"]]
        calls = trial.calls
        kept = observe_kept(trial, inputs_of(case))
        work, gradients = _observe_work(trial, inputs_of(case))
        other = sum(num_different([each], trial.results[:1]) for each in trial.results)
        return {
            **numbers,
            "calls": calls,
            **kept,
            **work,
            "other_runs": other + num_different(gradients, first),
        }


def _observe_work(
    trial: _Trial, inputs: list[Tensor]
) -> tuple[dict[str, int], list[Tensor | None]]:
    """FLOPs of both passes and the bytes of the largest storage; and the gradients."""
    with _Work() as work:
        result = trial(*inputs)
        forward_flops = work.flops
        gradients = gradients_of(result, inputs)
    return {
        "forward_flops": forward_flops,
        "backward_flops": work.flops - forward_flops,
        "largest_bytes": work.largest_bytes,
    }, gradients


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
        "square_tensors": int(is_seen and observed["largest_bytes"] >= square_bytes),
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
