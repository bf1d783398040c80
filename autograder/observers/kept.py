"""What a call gives and keeps: result, gradients, saved storages, and what lives on afterwards."""

import gc
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from autograder.checking.fact import Fact, Plain
from autograder.observers.comparing import is_equal, num_different, num_rounded
from autograder.observers.tools import require_tensor, upstream
from course_utils.instruments import trace_memory
from course_utils.instruments.preconditions import older_objects_frozen

Call = Callable[..., Any]


def gradients_of(
    result: Tensor, inputs: Sequence[Tensor], incoming: Tensor | None = None
) -> list[Tensor | None]:
    """What backward gives for each input that wants a gradient."""
    wanted = [each for each in inputs if each.requires_grad]
    for each in wanted:
        each.retain_grad()
    if result.requires_grad:
        result.backward(upstream(result) if incoming is None else incoming)
    return [each.grad for each in wanted]


def observe_numbers(call: Call, inputs: Sequence[Tensor]) -> dict[str, Any]:
    """The result of a call and its gradients; and afterwards what others hold, too.

    These are the inputs, with how often each was written into, and the gradient that came in.
    """
    versions = [each._version for each in inputs]
    result = require_tensor(call(*inputs))
    incoming = upstream(result)
    return {
        "result": result,
        "gradients": gradients_of(result, inputs, incoming),
        "writes": [each._version - old for each, old in zip(inputs, versions, strict=True)],
        "inputs": [each.detach() for each in inputs],
        "incoming": incoming,
    }


class _Held:
    """What autograd holds in place of a saved tensor, until it frees it."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor


def observe_kept(call: Call, inputs: Sequence[Tensor], *owners: nn.Module) -> dict[str, Any]:
    """The storages that autograd holds after a call, and the bytes of all that the call left.

    A storage is a number and its bytes; those of the inputs have the first numbers. The storages of
    owners are left out.
    """
    held: list[weakref.ref[_Held]] = []
    results: list[Tensor] = []

    def pack(tensor: Tensor) -> _Held:
        each = _Held(tensor.detach())
        held.append(weakref.ref(each))
        return each

    def step() -> None:
        with saved_tensors_hooks(pack, lambda each: each.tensor):
            results.append(require_tensor(call(*inputs)))
        gc.collect()  # what only lies in a cycle is not kept
        torch.zeros(())  # so that the trace has an operation, whatever the call does

    with older_objects_frozen():
        trace = trace_memory(step, *inputs, *owners)
    numbers: dict[int, int] = {}

    def storage(tensor: Tensor) -> list[int]:
        kept = tensor.untyped_storage()
        return [numbers.setdefault(kept._cdata, len(numbers)), kept.nbytes()]

    given = [storage(each) for each in inputs]
    weights = {each.untyped_storage()._cdata for owner in owners for each in owner.parameters()}
    tensors = [each.tensor for each in (ref() for ref in held) if each is not None]
    return {
        "given": given,
        "saved": [storage(t) for t in tensors if t.untyped_storage()._cdata not in weights],
        "returned": storage(results[0]),
        # What was there before the call has 0 for `born`.
        "left_bytes": sum(e.storage_bytes for e in trace.storages if e.born and e.died is None),
    }


def kept_bytes(observed: Plain) -> dict[str, int]:
    """Bytes that autograd keeps, those of them that were not given, and those it does not see."""
    given = {number for number, _ in observed["given"]}
    saved = dict(map(tuple, observed["saved"]))
    seen = saved | dict([observed["returned"]])
    copied = sum(num_bytes for number, num_bytes in saved.items() if number not in given)
    known = sum(num_bytes for number, num_bytes in seen.items() if number not in given)
    return {
        "saved_bytes": sum(saved.values()),
        "copied_bytes": copied,
        "unseen_bytes": max(0, observed["left_bytes"] - known),
    }


def saved(num_bytes: int, ask: str) -> Fact:
    """Bytes that autograd keeps."""
    return Fact("saved_bytes", num_bytes, "the bytes that autograd keeps", ask)


def unseen(num_bytes: int) -> Fact:
    """Bytes that live on and that autograd does not keep."""
    return Fact(
        "unseen_bytes",
        num_bytes,
        "the bytes that stay alive where autograd does not see them",
        "Something stays alive where autograd does not see it. Which variable or attribute holds "
        "it?",
    )


def rounded_results(num_rounded: int) -> Fact:
    """Results that are nearly right."""
    return Fact(
        "rounded_results",
        num_rounded,
        "results that are right only in their first digits",
        "In which precision do the inputs come, and which of your operations computes in another "
        "one or takes an approximation?",
    )


def facts_beside(
    observed: Plain, right: Plain, inputs: Sequence[Tensor], ask_of_gradients: str
) -> list[Fact]:
    """What others hold and was changed, and gradients that are not the right ones."""
    writes, afterwards = observed["writes"], observed["inputs"]
    changes = (
        bool(num_writes) or not is_equal(now, before)
        for num_writes, now, before in zip(writes, afterwards, inputs, strict=True)
    )
    gradients = observed["gradients"], right["gradients"]
    rounded = num_rounded(*gradients)
    return [
        Fact(
            "changed_inputs",
            sum(changes),
            "inputs that your function changes",
            "Which of your operations works in place, in the forward pass or in backward, and does "
            "its tensor share memory with an input?",
        ),
        Fact(
            "changed_upstream",
            int(not is_equal(observed["incoming"], upstream(observed["result"]))),
            "incoming gradients that your function changes",
            "What does your code do with the gradient that comes into backward, and which "
            "operation there works in place?",
        ),
        Fact(
            "wrong_gradients",
            num_different(*gradients) - rounded,
            "wrong gradients",
            ask_of_gradients,
        ),
        Fact(
            "rounded_gradients",
            rounded,
            "gradients that are right only in their first digits",
            "In which precision do the inputs come, and which step of the backward pass computes "
            "in another one or takes an approximation?",
        ),
    ]
