"""A loss in pieces: its value and gradients, the pieces, and bytes."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from autograder.checking.fact import Case, Fact, Plain
from autograder.checking.precision import is_same_number, tolerance
from autograder.observers.comparing import num_changed, num_different
from autograder.observers.random_numbers import uniform_numbers
from autograder.observers.tools import errors_as_data, keep, require_tensor, undisturbed
from autograder.observers.u05.counted_layer import given_checkpoint, unseen
from course_utils.instruments import SavedTensor, count_saved_bytes, trace_memory
from course_utils.instruments.operands import tensors_in

FEWEST_TRACED = 3  # with fewer pieces it is hard to tell whether too much is live at once
UPSTREAM = 3.0


class Trial:
    """Hidden states, a head and targets of one case, always with the same numbers.

    Hidden states and head have gradients before.
    """

    def __init__(self, num_tokens: int, hidden_size: int, vocab_size: int, num_pieces: int) -> None:
        generator = torch.Generator().manual_seed(num_tokens * vocab_size)
        shapes = ((num_tokens, hidden_size), (vocab_size, hidden_size))
        self.hidden, self.weight = (
            uniform_numbers(shape, generator).requires_grad_() for shape in shapes
        )
        self.targets = torch.randint(vocab_size, (num_tokens,), generator=generator)
        self.inputs = [self.hidden, self.weight, self.targets]
        self.num_pieces, self.num_runs = num_pieces, 0
        for leaf in self.inputs[:2]:
            leaf.grad = torch.ones_like(leaf)

    def _checkpoint(self, function: Callable[..., Tensor], *tensors: Tensor) -> Tensor:
        self.num_runs += 1
        return given_checkpoint(function, *tensors)

    def loss(self, answer: Callable[..., Tensor]) -> Tensor:
        """The answer's loss."""
        return require_tensor(answer(*self.inputs, self.num_pieces, self._checkpoint))

    @property
    def gradients(self) -> list[Tensor | None]:
        """Of hidden states and head."""
        return [leaf.grad for leaf in self.inputs[:2]]


class _LargestTensor(TorchDispatchMode):
    """Notes how many numbers the largest tensor has that comes out of an operation."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.num_numbers = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run an operation and look at what it makes."""
        out = func(*args, **(kwargs or {}))
        sizes = (each.numel() for each in tensors_in(out) if each.dtype.is_floating_point)
        self.num_numbers = max(self.num_numbers, *sizes, 0)
        return out


@errors_as_data
def observe(answer: Any, case: Case) -> dict[str, Any]:
    """Loss, gradients, runs of the checkpoint and bytes of a step, and the peak of another one."""
    trial, results = Trial(**case), list[Tensor]()
    with undisturbed():
        with _LargestTensor() as largest:
            saved = count_saved_bytes(lambda: keep(results, trial.loss(answer)), *trial.inputs)
        num_runs = trial.num_runs
        _go_back(results[0])
        peak_bytes = _peak_of(answer, case)
    return {
        "num_runs": num_runs,
        "kept": _sizes_of(saved.tensors),
        "unseen": _sizes_of(saved.unseen),
        "loss": results[0].sum().item(),
        "gradients": trial.gradients,
        "num_numbers": largest.num_numbers,
        "peak_bytes": peak_bytes,
        "inputs": [each.detach() for each in trial.inputs],
    }


def _go_back(loss: Tensor) -> None:
    if loss.requires_grad:
        (loss * UPSTREAM).backward()


def _sizes_of(tensors: Iterable[SavedTensor]) -> list[int]:
    return [each.storage_bytes for each in tensors if each.dtype.is_floating_point]


def _peak_of(answer: Callable[..., Tensor], case: Case) -> int:
    """Bytes at the peak of a step, beside what was there before."""
    if case["num_pieces"] < FEWEST_TRACED:
        return 0
    trial = Trial(**case)
    trace = trace_memory(lambda: _go_back(trial.loss(answer)), *trial.inputs)
    return trace.peak_bytes - trace.total_bytes[0]


def facts(case: Case, observed: Plain, right: Plain) -> list[Fact]:
    """Loss and gradients beside the right ones; some bytes are free, and so is less of any."""
    limits = right["limits"]
    return [
        Fact(
            "pieces",
            observed["num_runs"],
            "pieces that go through the checkpoint",
            "How often do you call the `checkpoint` that is given, and which tokens go through "
            "each of these calls?",
        ),
        Fact(
            "kept_bytes_beside_inputs",
            sum(size for size in observed["kept"] if size > limits["kept"]),
            "bytes that are kept beside the inputs",
            "Which tensors go into `checkpoint`, and which are made outside of it? Which of them "
            "do not share memory with `hidden` or `weight`?",
        ),
        unseen(sum(size for size in observed["unseen"] if size > limits["kept"])),
        Fact(
            "rounded_loss",
            int(_is_rounded(observed["loss"], right["loss"])),
            "The loss is rounded to seven digits.",
            "In which precision do the hidden states come, and where does your loss, or a part of "
            "it, get fewer bits?",
        ),
        Fact(
            "loss",
            observed["loss"],
            "the loss",
            "Which tokens enter your loss, and how much does each of them count where the pieces "
            "have different lengths?",
        ),
        Fact(
            "wrong_gradients",
            num_different(observed["gradients"], right["gradients"]),
            "wrong gradients",
            "The loss is right, gradients are not. When backward runs a piece again, which hidden "
            "states, weight and targets does it use, and does the loss lead back to each piece?",
        ),
        Fact(
            "tokens_in_longest_piece",
            observed["num_numbers"] // case["vocab_size"],
            "tokens in the longest piece",
            "For how many tokens does your function make logits at once, and how long is the "
            "longest piece that the first line cuts?",
        ),
        Fact(
            "peak_too_high",
            int(observed["peak_bytes"] > limits["peak"]),
            "The peak is too high.",
            "Which tensors as large as the logits of a piece are alive at the same moment, in the "
            "forward pass or in backward, and what holds each of them?",
        ),
        Fact(
            "changed_inputs",
            num_changed(observed["inputs"], right["inputs"]),
            "inputs that have changed",
            "Which of your operations works in place, and does its tensor share memory with "
            "`hidden`, `weight` or `targets`?",
        ),
    ]


def _is_rounded(loss: float, right: float) -> bool:
    """Whether a loss is the right one in single precision; its last digits differ by processor."""
    is_nearly = is_same_number(loss, right, tolerance("float32", num_terms=2, cancelled=1))
    return is_nearly and _is_single(loss) and not _is_single(right)


def _is_single(number: float) -> bool:
    return torch.tensor(number, dtype=torch.float32).item() == number
