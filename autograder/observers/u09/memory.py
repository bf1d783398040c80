"""What is observed of gradients that are views of their buckets."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from autograder.checking.fact import Case, Fact, Plain
from autograder.observers.backward_steps import (
    Job,
    changes_model,
    gradient_length,
    gradients_of,
    other_buckets,
    state_of,
)
from autograder.observers.comparing import num_different
from autograder.observers.tools import errors_as_data, length_of, require_tensor, undisturbed
from course_utils.instruments import trace_memory


def job_of(case: Case) -> Job:
    """A model and its loss on one rank."""
    return Job(widths=case["widths"], num_ranks=1, precision=case["precision"])


@errors_as_data
def observe(answer: Any, case: Case) -> object:
    """Bytes that the student's call takes, and in which bucket backward fills each gradient."""
    job, buckets = job_of(case), list[Tensor]()
    model = job.model()

    def call() -> None:
        buckets.extend(require_tensor(each) for each in _returned(answer, model, case))
        torch.empty(0)  # one more step of the trace, after the call has freed its memory

    with undisturbed(), _empty_is_not_zero():
        trace = trace_memory(call, model)
        job.loss(model, 0).backward()
    storages = [each.untyped_storage().data_ptr() for each in buckets]
    filled = [_storage(each.grad) for each in model.parameters()]
    return {
        "bucket_bytes": [each.nbytes for each in buckets],
        "are_followed": [each.requires_grad for each in buckets],
        "bucket_of": [storages.index(each) if each in storages else None for each in filled],
        "gradients": gradients_of(model),
        "state": state_of(model),
        "peak_bytes": trace.peak_bytes - trace.total_bytes[0],
        "bytes_left": trace.total_bytes[-1] - trace.total_bytes[0],
    }


def _returned(answer: Any, model: nn.Module, case: Case) -> list[object]:
    """The items that were returned; anything but a list or a tuple is one item."""
    returned = answer(model, case["bucket_bytes"])
    return list(returned) if isinstance(returned, (list, tuple)) else [returned]


def _storage(gradient: Tensor | None) -> int | None:
    return None if gradient is None else gradient.untyped_storage().data_ptr()


@contextmanager
def _empty_is_not_zero() -> Iterator[None]:
    """Fill uninitialised memory with nan inside, since by chance it is often zero."""
    was_strict = torch.are_deterministic_algorithms_enabled()
    # PyTorch then fills what `torch.empty` returns with nan, as long as
    # `torch.utils.deterministic.fill_uninitialized_memory` is on, as it is by default.
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(was_strict)


def facts(case: Case, observed: Plain, right: Plain) -> list[Fact]:
    """Buckets, gradients and bytes, beside what is right."""
    pairs = zip(observed["bucket_bytes"], right["bucket_bytes"], strict=False)
    wrong = num_different(observed["gradients"], right["gradients"])
    return [
        Fact(
            "buckets",
            len(observed["bucket_bytes"]),
            ask="Which parameter ends a bucket, how are its bytes counted, and which parameters "
            "does the last bucket hold?",
        ),
        other_buckets(
            sum(one != other for one, other in pairs),
            "Which parameters does each bucket hold, beginning with the last one of the model, and "
            "how many bytes has each of its numbers?",
        ),
        Fact(
            "followed_buckets",
            sum(observed["are_followed"]),
            "buckets that autograd follows",
            "The `requires_grad` of a bucket should be False. Which operation makes that bucket, "
            "and out of what?",
        ),
        Fact(
            "gradients_apart",
            observed["bucket_of"].count(None),
            "gradients that backward fills outside of the buckets",
            "Does every parameter get a `grad`, and is that tensor a view of a bucket that you "
            "return?",
        ),
        gradient_length(
            length_of((observed if wrong else right)["gradients"]),
            "Backward adds to what is in `grad`. Which numbers are in the buckets before, does "
            "each belong to one gradient only, and are the weights as they came?",
        ),
        Fact(
            "wrong_gradients",
            wrong,
            "wrong gradients after backward",
            "All gradients together have the right length. Which piece of a bucket belongs to "
            "which parameter, and in which shape is it put there?",
        ),
        Fact(
            "peak_bytes",
            observed["peak_bytes"],
            "bytes that the call takes at its peak",
            "Which memory does the call take besides the numbers in the buckets, and at which "
            "moment does it hold the most?",
        ),
        Fact(
            "bytes_left",
            observed["bytes_left"],
            "bytes left by the call",
            "Which memory is still alive after the call besides the numbers in the buckets, and "
            "what refers to it?",
        ),
        changes_model([observed["state"]], right["state"]),
    ]
