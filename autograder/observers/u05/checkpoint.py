"""A checkpoint: results, gradients and random numbers, and how functions are called under it."""

import weakref
from collections.abc import Callable, Iterable
from contextlib import nullcontext
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
from autograder.observers.u05.counted_layer import CountedLayer
from course_utils.instruments import SavedTensor, count_saved_bytes

Checkpoint = Callable[..., Tensor]

# The scenario in which numbers are rounded to so few bits that machines differ in them.
MEASURED_HERE = "autocast"
# Autocast that is switched on only after the forward pass.
LATE = "on in backward"
NUM_SCALES = {"two inputs": 1, "three inputs": 2, "data and a scale": 1, "a mask": 1}


def inputs_of(case: Case) -> list[Tensor]:
    """The input of the first layer, and the tensors that scale the result of every layer."""
    kind, shape = case["kind"], (case["rows"], case["width"])
    generator = torch.Generator().manual_seed(case["rows"] * case["width"])
    tensors = [
        torch.randn(shape, dtype=_precision(case), generator=generator)
        for _ in range(1 + NUM_SCALES.get(kind, 0))
    ]
    if kind == "a mask":
        tensors[1] = tensors[1] > 0
    is_trained = [kind not in ("data alone", "data and a scale"), *[kind != "a mask"] * 2]
    for tensor, requires_grad in zip(tensors, is_trained, strict=False):
        tensor.requires_grad_(requires_grad)
    return tensors


def _precision(case: Case) -> torch.dtype:
    return torch.float32 if case["scenario"] == "autocast" else torch.float64


class _Trial:
    """Layers and inputs of one case, always with the same numbers.

    Parameters have gradients before; beside a mask, those of the layers' first part are frozen.
    """

    def __init__(self, case: Case) -> None:
        kind = case["kind"]
        torch.default_generator.manual_seed(case["rows"] * case["width"])
        self.autocast = getattr(torch, kind) if kind in ("bfloat16", "float16") else None
        self.is_late = kind == LATE  # then gradients have another precision, and are not compared
        self.noise = kind if case["scenario"] == "random" else ""
        self.layers = [
            CountedLayer(case["width"], self.noise, _precision(case))
            for _ in range(case["num_layers"])
        ]
        self.inputs = inputs_of(case)
        self.parameters = [each for layer in self.layers for each in layer.parameters()]
        for each in self.parameters:
            each.grad = torch.ones_like(each)
        for layer in self.layers:
            layer.up.requires_grad_(kind != "a mask")

    def forward(self, run: Checkpoint) -> Tensor:
        """Run each layer through ``run``; inputs that require a gradient are not leaves."""
        x, *scales = (t * 1 if t.requires_grad else t for t in self.inputs)
        with torch.autocast("cpu", dtype=self.autocast) if self.autocast else nullcontext():
            for layer in self.layers:
                x = require_tensor(run(layer, x, *scales))
        return x

    @property
    def num_calls(self) -> int:
        """Calls of all layers together."""
        return sum(layer.num_calls for layer in self.layers)

    def backward(self, results: list[Tensor]) -> tuple[Tensor, bool, int]:
        """Take the only result and go back from it.

        Returns:
            Its numbers, whether it stays, and how many results of the second run do: a loss that
            is still there holds the graph, which by then needs none of them.
        """
        result = results.pop()
        loss, values = (result * upstream(result)).sum(), result.detach() + 0
        storage = weakref.ref(result.untyped_storage())
        del result
        stays = storage() is not None
        for layer in self.layers:
            layer.results.clear()
        with torch.autocast("cpu", enabled=self.is_late, dtype=torch.bfloat16):
            if loss.requires_grad:
                loss.backward()
        return values, stays, sum(each() is not None for n in self.layers for each in n.results)


@errors_as_data
def observe(answer: Any, case: Case) -> dict[str, Any]:
    """Both passes, with random numbers drawn in between and afterwards."""
    with undisturbed():
        trial, results = _Trial(case), list[Tensor]()
        torch.default_generator.manual_seed(len(trial.layers))
        saved = count_saved_bytes(lambda: keep(results, trial.forward(answer)), *trial.layers)
        calls_in_forward = trial.num_calls
        if trial.noise:
            torch.rand(3)
        values, stays, num_staying = trial.backward(results)
        compared = not trial.is_late
        return {
            "calls_in_forward": calls_in_forward,
            "calls_in_backward": trial.num_calls - calls_in_forward,
            "kept": _described(saved.tensors),
            "unseen": _described(saved.unseen),
            "precisions": [str(each) for layer in trial.layers for each in layer.dtypes],
            "result": values,
            "result_stays": stays,
            "second_results_stay": num_staying,
            "wanting": [[0, *layer.num_wanting][-1] for layer in trial.layers],
            "inputs": [each.grad for each in trial.inputs if compared],
            "parameters": [each.grad for each in trial.parameters if compared],
            "random_numbers": torch.rand(1 if trial.noise else 0).tolist(),
        }


def _described(tensors: Iterable[SavedTensor]) -> list[tuple[str, list[int], int]]:
    return [(str(each.dtype), list(each.shape), each.storage_bytes) for each in tensors]


def plain_numbers(case: Case) -> dict[str, Any]:
    """What a case gives where nothing is recomputed."""
    plain: Any = observe(_plain, case)
    compared = ("precisions", "result", "wanting", "inputs", "parameters", "random_numbers")
    return {name: plain[name] for name in compared}


def _plain(function: Checkpoint, *tensors: Tensor) -> Tensor:
    return function(*tensors)


def facts(case: Case, observed: Plain, right: Plain) -> list[Fact]:
    """Calls and bytes; numbers, precisions and wishes beside those without recomputation."""
    if case["scenario"] == MEASURED_HERE:
        right = right | plain_numbers(case)
    wishes = zip(observed["wanting"], right["wanting"], strict=True)
    return [
        Fact(
            "calls_in_forward",
            observed["calls_in_forward"],
            "calls of functions in the forward pass",
            "Which of your lines call `function` before backward begins, and how often each?",
        ),
        Fact(
            "calls_in_backward",
            observed["calls_in_backward"],
            "calls of functions in the backward pass",
            "How often should the function run again, and which line calls it?",
        ),
        Fact(
            "kept_bytes",
            _counted_bytes(observed["kept"]),
            "kept bytes",
            "Which tensors live between the two passes, and which of them does the second run "
            "need?",
        ),
        Fact(
            "unseen_bytes",
            _counted_bytes(observed["unseen"]),
            "bytes kept where autograd does not see them",
            "Where else than in `ctx.save_for_backward` do your tensors wait for backward?",
        ),
        Fact(
            "calls_in_other_precision",
            sum(each != right["precisions"][0] for each in observed["precisions"]),
            "calls in a precision other than the first run's",
            "Which autocast was on in the first run, and which is on in the second?",
        ),
        Fact(
            "wrong_results",
            num_different([observed["result"]], [right["result"]]),
            "wrong results",
            "Is `function(*tensors)` what `forward` returns?",
        ),
        Fact(
            "wrong_gradients_of_inputs",
            num_different(observed["inputs"], right["inputs"]),
            "wrong input gradients",
            "Which inputs does the second run record, and from which of its results do you go "
            "back?",
        ),
        Fact(
            "parameters_left_out",
            sum(
                torch.equal(ours, torch.ones_like(ours)) and not torch.equal(ours, theirs)
                for ours, theirs in zip(observed["parameters"], right["parameters"], strict=True)
                if ours is not None
            ),
            "parameters without a gradient",
            "Which call of yours fills `grad` of parameters, and in which cases does it run?",
        ),
        Fact(
            "wrong_gradients_of_parameters",
            num_different(observed["parameters"], right["parameters"]),
            "wrong parameter gradients",
            "A backward pass adds to `grad`. How many of yours go through each parameter, and with "
            "which upstream gradient?",
        ),
        Fact(
            "frozen_inputs_that_want_gradients",
            sum(max(0, ours - theirs) for ours, theirs in wishes),
            "frozen inputs that require a gradient in the second run",
            "Which inputs required a gradient when they came in, and which do in your second run?",
        ),
        Fact(
            "random_numbers_off",
            int(observed["random_numbers"] != right["random_numbers"]),
            "The next random number is a different one.",
            "Your second run draws numbers again. In which state does it leave the generator?",
        ),
        Fact(
            "results_that_stay",
            int(observed["result_stays"]),
            "results that stay in memory",
            "What still holds the result of the first run once the caller has dropped it?",
        ),
        Fact(
            "second_results_that_stay",
            observed["second_results_stay"],
            "second-run results that outlive the backward pass",
            "What still holds the results of the second run when backward is over?",
        ),
    ]


def _counted_bytes(tensors: list[tuple[str, list[int], int]]) -> int:
    """Bytes of tensors that are neither the state of the generator nor a dummy of one number."""
    state = ("torch.uint8", list(torch.get_rng_state().shape))
    return sum(
        num_bytes
        for dtype, shape, num_bytes in tensors
        if (dtype, shape) != state and shape not in ([], [1])
    )
