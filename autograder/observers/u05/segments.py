"""Layers in segments: results and gradients, what goes through each checkpoint, and bytes."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from autograder.checking.fact import Case, Fact, Plain
from autograder.observers.comparing import num_different
from autograder.observers.tools import (
    errors_as_data,
    keep,
    require_tensor,
    undisturbed,
    upstream,
)
from autograder.observers.u05.counted_layer import CountedLayer, given_checkpoint, unseen
from course_utils.instruments import count_saved_bytes, trace_memory


class Trial:
    """Layers and an input of one case, always with the same numbers.

    A second layer is frozen where there are four or more, and gradients are there before.

    Attributes:
        given: The list of layers that the answer gets.
        lengths: Calls of layers in each call of the checkpoint.
    """

    def __init__(self, num_layers: int, layers_per_segment: int, rows: int, width: int) -> None:
        torch.default_generator.manual_seed(rows * num_layers)
        self.layers = [CountedLayer(width) for _ in range(num_layers)]
        self.given, self.size, self.lengths = list(self.layers), layers_per_segment, list[int]()
        self.x = torch.randn(rows, width, dtype=torch.float64, requires_grad=True)
        self.leaves = [self.x, *(p for layer in self.layers for p in layer.parameters())]
        for leaf in self.leaves:
            leaf.grad = torch.ones_like(leaf)
        if num_layers > 3:
            self.layers[1].requires_grad_(False)

    def forward(self, answer: Callable[..., Tensor]) -> Tensor:
        """The answer's result."""
        return require_tensor(answer(self.given, self.x * 1, self.size, self._checkpoint))

    def _checkpoint(self, function: Callable[..., Tensor], *tensors: Tensor) -> Tensor:
        """The checkpoint that is given; notes how many layers run in it."""
        before = self.num_calls
        result = given_checkpoint(function, *tensors)
        self.lengths.append(self.num_calls - before)
        return result

    @property
    def num_calls(self) -> int:
        """Calls of all layers together."""
        return sum(layer.num_calls for layer in self.layers)

    def go_back(self, result: Tensor) -> None:
        """Run backward from the result, if that is possible."""
        if result.requires_grad:
            result.backward(upstream(result))


@errors_as_data
def observe(answer: Any, case: Case) -> dict[str, Any]:
    """Calls, bytes, result and gradients of a step, and the peak of another one."""
    trial, results = Trial(**case), list[Tensor]()
    with undisturbed():
        saved = count_saved_bytes(lambda: keep(results, trial.forward(answer)), *trial.layers)
        calls_in_forward = trial.num_calls
        trial.go_back(results[0])
        peak_bytes = peak_of(answer, case)
    return {
        "calls_in_forward": calls_in_forward,
        "calls": [layer.num_calls for layer in trial.layers],
        "lengths": trial.lengths,
        "kept_bytes": saved.total_bytes,
        "unseen_bytes": saved.unseen_bytes,
        "result": results[0].detach(),
        "gradients": [leaf.grad for leaf in trial.leaves],
        "peak_bytes": peak_bytes,
        "list": [trial.layers.index(each) for each in trial.given if each in trial.layers],
    }


def peak_of(answer: Callable[..., Tensor], case: Case) -> int:
    """Live bytes at the peak of a step, or zero for an even number of layers: it takes long."""
    if case["num_layers"] % 2 == 0:
        return 0
    trial = Trial(**case)
    step = lambda: trial.go_back(trial.forward(answer))  # noqa: E731
    return trace_memory(step, *trial.layers, trial.x).peak_bytes


def facts(case: Case, observed: Plain, right: Plain) -> list[Fact]:
    """Calls and lengths counted, result and gradients against the right ones; less peak is fine."""
    lengths, calls = observed["lengths"] or [0], observed["calls"]
    return [
        Fact(
            "calls_in_forward",
            observed["calls_in_forward"],
            "calls of layers in the forward pass",
            "Which layers does each of your segments hold, and how often does the forward pass run "
            "each segment?",
        ),
        Fact(
            "calls_in_backward",
            sum(calls) - observed["calls_in_forward"],
            "calls of layers in the backward pass",
            "In backward, how often does each of the layers run?",
        ),
        Fact(
            "layers_called_twice",
            calls.count(2),
            "layers that are called twice in all",
            "In backward, how often does each of the layers run?",
        ),
        Fact(
            "kept_bytes",
            observed["kept_bytes"],
            "kept bytes",
            "Which tensors lie between the segments, and is anything else kept?",
        ),
        unseen(observed["unseen_bytes"]),
        Fact(
            "layers_in_first_segment",
            lengths[0],
            "layers in the first segment",
            "How many layers has the first segment, and how are those that are left over dealt "
            "out?",
        ),
        Fact(
            "layers_in_last_segment",
            lengths[-1],
            "layers in the last segment",
            "How many layers are left for the last segment?",
        ),
        Fact(
            "odd_segments",
            sum(each != case["layers_per_segment"] for each in lengths[1:-1]),
            "segments in between of another length",
            "Between the first segment and the last, with which layer does each segment begin, and "
            "with which does it end?",
        ),
        Fact(
            "wrong_results",
            num_different([observed["result"]], [right["result"]]),
            "wrong results",
            "In which order do the layers run, and what comes into each segment?",
        ),
        Fact(
            "wrong_gradients",
            num_different(observed["gradients"], right["gradients"]),
            "wrong gradients",
            "The result is right, gradients are not. When backward comes to a segment, which "
            "layers does it run again, on which input, and does a gradient reach the segment "
            "before?",
        ),
        Fact(
            "peak_bytes",
            max(observed["peak_bytes"], right["peak_bytes"]),
            "bytes at the peak",
            "The kept bytes are right, the peak is not. What is alive while one segment runs "
            "again?",
        ),
        Fact(
            "changed_list",
            int(observed["list"] != list(range(case["num_layers"]))),
            "The list of layers is not as it was before.",
            "Which of your lines puts something into `layers`, takes something out or moves it, "
            "and what else may be using that list?",
        ),
    ]
