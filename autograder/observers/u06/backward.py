"""Causal attention as an autograd function: gradients, what it keeps, FLOPs and tensors."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from autograder.checking.fact import Case, Fact, Plain
from autograder.observers.checksums import checksum, wrong_rows
from autograder.observers.comparing import num_different
from autograder.observers.kept import gradients_of, kept_bytes, observe_kept, observe_numbers, saved
from autograder.observers.random_numbers import normal_numbers
from autograder.observers.tools import errors_as_data, require_tensor, undisturbed
from course_utils.instruments.flop_count import operation_flops
from course_utils.instruments.operands import tensors_in
from course_utils.reference.tiled_forward import tiled_forward

APART, PARTS, FROZEN = "three tensors", "parts of one tensor", "values without a gradient"
QKV = ("q", "k", "v")


def inputs_of(case: Case) -> list[Tensor]:
    """Queries, keys and values, which are no leaves of the graph."""
    shape = (*case["heads"], case["seq_len"], case["head_dim"])
    seed = 100 * case["seq_len"] + case["block"]
    if case["kind"] == PARTS:
        (whole,) = normal_numbers(seed, (*shape[:-1], 3 * shape[-1]))
        return [*(whole.requires_grad_() * 1).chunk(3, -1)]
    tensors = [each.requires_grad_() * 1 for each in normal_numbers(seed, *(shape,) * 3)]
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


def facts(case: Case, observed: Plain, right: Plain) -> list[Fact]:
    """Rows and gradients beside the right ones, bytes, and FLOPs where all gradients are wanted."""
    kept = kept_bytes(observed)
    square_bytes = 8 * case["seq_len"] ** 2
    # With so small a block, a tile of both heads is smaller than a square. Parts of one tensor
    # count with the storage of all three, which can be larger.
    is_seen = 2 * case["block"] <= case["seq_len"] and case["kind"] == APART
    return [
        Fact(
            "wrong_rows",
            wrong_rows(observed["result"], right["result"]) + observed["other_runs"],
            "rows of the result that are wrong",
            "What does `forward` return, and what do you hand on?",
        ),
        Fact(
            "changed_inputs",
            sum(map(bool, observed["writes"])),
            "inputs that have changed",
            "Which of your operations works in place, in either pass, and does the tensor that it "
            "writes into share memory with `q`, `k` or `v`?",
        ),
        *_facts_of_gradients(observed["gradients"], right["gradients"]),
        Fact(
            "calls_of_forward",
            observed["calls"],
            "calls of `forward` in both passes",
            "How often does your code call the given `forward`, in which of the two passes should "
            "that be, and what does backward need of it?",
        ),
        saved(
            kept["saved_bytes"],
            "Other bytes are kept than those of five tensors. Which ones does your backward pass "
            "read, and which of them are inputs?",
        ),
        Fact(
            "copied_bytes",
            kept["copied_bytes"],
            "the bytes of what autograd keeps beside q, k and v",
            "Only the result and the log-sum-exp should be kept beside `q`, `k` and `v`. Which "
            "other tensor do you save, and which operation has made it?",
        ),
        Fact(
            "unseen_bytes",
            kept["unseen_bytes"],
            "the bytes that live on where autograd does not see them",
            "Something of yours lives on between the passes. Which variable or attribute holds it?",
        ),
        Fact(
            "forward_flops",
            observed["forward_flops"],
            "FLOPs of the forward pass",
            "The result is right, and `forward` is not all that computes in the forward pass. What "
            "else multiplies there?",
        ),
        Fact(
            "backward_flops",
            _backward_flops(case, observed, right),
            "FLOPs of the backward pass",
            "Gradients are right, and backward is not five products for each tile on and below the "
            "diagonal. Which product is there twice, or for nothing?",
        ),
        Fact(
            "square_tensors",
            int(is_seen and observed["largest_bytes"] >= square_bytes),
            "There is a tensor of s × s numbers or more.",
            "Print the shape of every tensor that your two passes make. Which one is that large, "
            "and how large is the largest that one tile needs?",
        ),
    ]


def _facts_of_gradients(ours: list[Tensor | None], theirs: list[Tensor]) -> list[Fact]:
    """Wrong rows of each gradient that is wanted, and then their checksums.

    That of `v` comes last, and is missing where the values are frozen.
    """
    asked = (
        (
            "q",
            "dq is the first that is wrong. Which of the five products of a tile give it, and is "
            "each of their factors right?",
        ),
        ("k", "dq is right, dk is not. Which axis do you sum over for each of the two?"),
        ("v", "dv is the first that is wrong. Which two matrices of a tile give it?"),
    )
    given = [
        torch.zeros_like(right) if mine is None else mine
        for mine, right in zip(ours, theirs, strict=True)
    ]
    compared = [*zip(asked, given, theirs, strict=False)]
    wrong = [
        Fact(
            f"wrong_d{name}",
            wrong_rows(mine, right),
            f"rows of the gradient of {name} that are wrong",
            ask,
        )
        for (name, ask), mine, right in compared
    ]
    sums = [
        Fact(
            f"d{name}_checksum",
            checksum(mine, right),
            f"the weighted sum of the gradient of {name}",
            ask,
        )
        for (name, ask), mine, right in compared
    ]
    return wrong + sums


def _backward_flops(case: Case, observed: Plain, right: Plain) -> int:
    """FLOPs of the backward pass where all gradients are wanted.

    A row sum may be written as a product, which is counted: once for all of them. The outer
    product of two vectors may be written without one, as `torch.einsum` does.
    """
    wanted, counted = int(right["backward_flops"]), int(observed["backward_flops"])
    of_row_sums, uncounted = 2 * right["result"].numel(), _outer_product_flops(case, right)
    is_right = case["kind"] == FROZEN or any(
        0 <= most - counted <= uncounted for most in (wanted, wanted + of_row_sums)
    )
    return wanted if is_right else counted


def _outer_product_flops(case: Case, right: Plain) -> int:
    """FLOPs of the products that sum over a single query or a single key of a tile.

    Those of dV and dK sum over the queries of a tile, that of dQ over its keys.
    """
    block, seq_len = case["block"], case["seq_len"]
    sides = [min(block, seq_len - start) for start in range(0, seq_len, block)]
    num_pairs = sum(
        queries * keys * (2 * (queries == 1) + (keys == 1))
        for n, queries in enumerate(sides)
        for keys in sides[: n + 1]
    )
    return int(2 * num_pairs * (right["result"].numel() // seq_len))
