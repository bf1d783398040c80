"""Check of the student's own checkpoint: what it keeps, what it calls, what reaches whom."""

import random
import weakref
from collections.abc import Callable
from contextlib import nullcontext
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from autograder.checking.check import Case, Check
from autograder.checking.judges import Behaviour, Mistake
from autograder.exercises.counted_layers import (
    CountedLayer,
    keep,
    num_calls,
    num_different,
    require_tensor,
    tells_errors,
    undisturbed,
)
from autograder.exercises.u03.results_and_gradients import upstream
from course_utils.instruments import SavedTensor, count_saved_bytes, storage_bytes
from course_utils.reference.recomputation import checkpoint

# Autocast that is switched on only when the forward pass is over.
LATE = "on in backward"

# What each scenario has: further inputs, random numbers, inputs without gradient, precisions.
KINDS = {
    "gradients": ("one input", "two inputs", "three inputs"),
    "random": ("dropout", "noise"),
    "frozen_inputs": ("data alone", "data and a scale", "a mask"),
    "autocast": ("bfloat16", "float16", "off", LATE),
}
NUM_SCALES = {"two inputs": 1, "three inputs": 2, "data and a scale": 1, "a mask": 1}
PARAMETERS_OF_LAYER = 4

Checkpoint = Callable[..., Tensor]


def checkpoint_cases(seed: int) -> list[Case]:
    """Every kind for one layer and for chains of two and three."""
    rng = random.Random(seed)
    cases = []
    for scenario, kinds in KINDS.items():
        for kind, num_layers in ((kind, n) for kind in kinds for n in (1, rng.randint(2, 3))):
            rows, width = rng.randint(8, 11), rng.randrange(5, 11, 2)
            if scenario == "autocast":
                rows, width = 8, 8  # a kernel for a new size takes ten milliseconds to be made
            cases.append(_case(scenario, kind, num_layers, rows, width))
    return [cases[0] | {"rows": 2, "width": 3}, *cases[1:]]


def _inputs(scenario: str, kind: str, num_layers: int, rows: int, width: int) -> list[Tensor]:
    """The input of the first layer, and what scales the results of all."""
    generator = torch.Generator().manual_seed(rows * width)
    dtype = torch.float32 if scenario == "autocast" else torch.float64
    shapes = [(rows, width)] * (1 + NUM_SCALES.get(kind, 0))
    tensors = [torch.randn(shape, dtype=dtype, generator=generator) for shape in shapes]
    if kind == "a mask":
        tensors[1] = tensors[1] > 0
    wanting = [kind not in ("data alone", "data and a scale"), *[kind != "a mask"] * 2]
    for tensor, wants in zip(tensors, wanting, strict=False):
        tensor.requires_grad_(wants)
    return tensors


class _Trial:
    """Layers and inputs of one case, made anew and always the same."""

    def __init__(self, scenario: str, kind: str, num_layers: int, rows: int, width: int) -> None:
        torch.default_generator.manual_seed(rows * width)
        self.autocast = getattr(torch, kind) if kind in ("bfloat16", "float16") else None
        self.is_late = kind == LATE  # then gradients have another precision, and are not compared
        self.dtype = torch.float32 if scenario == "autocast" else torch.float64
        noise = kind if scenario == "random" else ""
        self.layers = [CountedLayer(width, noise, self.dtype) for _ in range(num_layers)]
        self.inputs = _inputs(scenario, kind, num_layers, rows, width)

    def parameters(self) -> list[torch.nn.Parameter]:
        """Those of all layers."""
        return [each for layer in self.layers for each in layer.parameters()]

    def forward(self, run: Checkpoint) -> Tensor:
        """The layers in a row, each through ``run``, on inputs that operations made."""
        x, *scales = (t * 1 if t.requires_grad else t for t in self.inputs)
        with torch.autocast("cpu", dtype=self.autocast) if self.autocast else nullcontext():
            for layer in self.layers:
                x = require_tensor(run(layer, x, *scales))
        return x

    def step(self, run: Checkpoint) -> dict[str, Any]:
        """All that a forward and a backward pass show, with random numbers drawn in between."""
        results: list[Tensor] = []
        torch.default_generator.manual_seed(len(self.layers))
        saved = count_saved_bytes(lambda: keep(results, self.forward(run)), *self.layers)
        first = num_calls(self.layers)
        if self.layers[0].noise:
            torch.rand(3)
        result = results.pop()
        loss, values, storage = (result * upstream(result)).sum(), result.detach() + 0, _ref(result)
        del result
        stays = storage() is not None
        with torch.autocast("cpu", enabled=self.is_late, dtype=torch.bfloat16):
            if loss.requires_grad:
                loss.backward()
        wanted = self.autocast or self.dtype
        return {
            "calls_in_forward": first,
            "calls_in_backward": num_calls(self.layers) - first,
            "kept_bytes": sum(each.storage_bytes for each in saved.tensors if _counts(each)),
            "unseen_bytes": sum(each.storage_bytes for each in saved.unseen if _counts(each)),
            "precisions": [dtype == wanted for layer in self.layers for dtype in layer.dtypes],
            "result": values,
            "result_stays": stays,
            "inputs": [] if self.is_late else [each.grad for each in self.inputs],
            "parameters": [] if self.is_late else [p.grad for p in self.parameters()],
            "random_state": torch.get_rng_state() if self.layers[0].noise else torch.empty(0),
        }


def _ref(tensor: Tensor) -> "weakref.ref[torch.UntypedStorage]":
    return weakref.ref(tensor.untyped_storage())


def _counts(tensor: SavedTensor) -> bool:
    """All but the state of random numbers and a tensor of one number that only wants a gradient."""
    is_state = tensor.dtype == torch.uint8 and tensor.shape == torch.get_rng_state().shape
    return not is_state and tensor.shape not in ((), (1,))


@lru_cache(maxsize=512)
def _plain_step(*values: Any) -> dict[str, Any]:
    """What a case shows without recomputation."""
    with undisturbed():
        return _Trial(*values).step(lambda function, *tensors: function(*tensors))


@tells_errors
def observe(answer: Any, case: Case) -> object:
    """Numbers of the student's checkpoint, or the error that it raised."""
    with undisturbed():
        ours = _Trial(**case).step(answer)
    theirs = _plain_step(*case.values())
    counts = ("calls_in_forward", "calls_in_backward", "kept_bytes", "unseen_bytes")
    return {name: ours[name] for name in counts} | {
        "calls_in_other_precision": ours["precisions"].count(False),
        "wrong_results": num_different([ours["result"]], [theirs["result"]]),
        "wrong_gradients_of_inputs": num_different(ours["inputs"], theirs["inputs"]),
        "wrong_gradients_of_parameters": num_different(ours["parameters"], theirs["parameters"]),
        "random_numbers_off": int(not torch.equal(ours["random_state"], theirs["random_state"])),
        "results_that_stay": int(ours["result_stays"]),
    }


def wanted(**case: Any) -> dict[str, int]:
    """Two calls of each layer, and no more bytes than those of the layers' inputs."""
    x, *scales = _inputs(**case)
    return {
        "calls_in_forward": case["num_layers"],
        "calls_in_backward": case["num_layers"],
        "kept_bytes": case["num_layers"] * storage_bytes(x) + sum(map(storage_bytes, scales)),
        "unseen_bytes": 0,
        "calls_in_other_precision": 0,
        "wrong_results": 0,
        "wrong_gradients_of_inputs": 0,
        "wrong_gradients_of_parameters": 0,
        "random_numbers_off": 0,
        "results_that_stay": 0,
    }


def _case(*values: Any) -> Case:
    return dict(zip(("scenario", "kind", "num_layers", "rows", "width"), values, strict=True))


def _num_wanting(kind: str) -> int:
    """Inputs that want a gradient."""
    frozen = {"data alone": 1, "data and a scale": 1, "a mask": 1}
    return 1 + NUM_SCALES.get(kind, 0) - frozen.get(kind, 0)


def _one_more(*values: Any) -> dict[str, int]:
    """The result of the last layer, beside what is wanted."""
    case = _case(*values)
    x, *_ = _inputs(**case)
    return {"kept_bytes": wanted(**case)["kept_bytes"] + storage_bytes(x)}


def _copies(*values: Any) -> dict[str, int]:
    """Every input once for each layer, those that layers share too."""
    case = _case(*values)
    return {"kept_bytes": case["num_layers"] * sum(map(storage_bytes, _inputs(**case)))}


def _state_of_the_last(scenario: str, kind: str, num_layers: int, *_: int) -> dict[str, int]:
    """Gradients if the state of random numbers is right for the last layer alone."""
    return {
        "wrong_gradients_of_inputs": 1,
        "wrong_gradients_of_parameters": PARAMETERS_OF_LAYER * (num_layers - 1),
    }


def _no_gradient(scenario: str, kind: str, num_layers: int, *_: int) -> dict[str, int]:
    return {
        "wrong_gradients_of_inputs": _num_wanting(kind),
        "wrong_gradients_of_parameters": PARAMETERS_OF_LAYER * num_layers,
    }


def _only_for(
    kinds: tuple[str, ...], formula: Callable[..., dict[str, int]]
) -> Callable[..., dict[str, int]]:
    """A mistake that shows in some kinds of cases and speaks of no others."""
    return lambda *values: formula(*values) if values[1] in kinds else {}


def _all_calls_again(scenario: str, kind: str, num_layers: int, *_: int) -> dict[str, int]:
    return {"calls_in_other_precision": num_layers}


RANDOM = KINDS["random"]

CHECK = Check(
    cases=checkpoint_cases,
    reference=checkpoint,
    observe=observe,
    not_from=("torch.utils.checkpoint",),
    judge=Behaviour(
        wanted,
        Mistake(
            "Where no input wants a gradient, the result says that nobody does, and backward "
            "never comes. Who wants one all the same, and what could you hand to `apply` so that "
            "autograd sees it?",
            _only_for(("data alone",), lambda *values: {"calls_in_backward": 0, "kept_bytes": 0}),
        ),
        Mistake(
            "Nothing is kept, and no gradient flows: the result does not know how it was made. "
            "What, beside running without recording, tells autograd what to do in backward?",
            lambda *values: {"calls_in_backward": 0, "kept_bytes": 0, "unseen_bytes": 0},
        ),
        Mistake(
            "The function runs once, and all that it makes on the way stays. What may be let go "
            "of, and how would backward get it again?",
            lambda *values: {
                "calls_in_backward": 0,
                "kept_bytes": _plain_step(*values)["kept_bytes"],
            },
        ),
        Mistake(
            "Autograd was given nothing to keep. Where do your tensors live until backward, and "
            "which method of `ctx` is made for them?",
            lambda *values: {"kept_bytes": 0},
        ),
        Mistake(
            "One tensor more than the inputs is kept, as large as the result. Can backward make "
            "it again?",
            _one_more,
        ),
        Mistake(
            "You keep copies: an input that several functions share lies in memory once for each. "
            "Which tensors does the exercise want kept?",
            _copies,
        ),
        Mistake(
            "The result stays in memory as long as its graph, though nobody asks for it. What does "
            "your `ctx` hold on to, and does backward need it?",
            lambda *values: {"results_that_stay": 1},
        ),
        Mistake(
            "The first pass calls each function twice. How often may the forward pass call it, "
            "and when is the second time?",
            lambda scenario, kind, num_layers, *_: {"calls_in_forward": 2 * num_layers},
        ),
        Mistake(
            "Each function runs three times: once forward and twice in backward. Which of your "
            "lines runs it again for each input?",
            lambda scenario, kind, num_layers, *_: {"calls_in_backward": 2 * num_layers},
        ),
        Mistake(
            "Under autocast to float16 the second run has another precision than the first. Which "
            "precision does autocast take if none is said, and where do you learn that of the "
            "first run?",
            _only_for(("float16",), _all_calls_again),
        ),
        Mistake(
            "Where autocast begins only after the forward pass, the second run has it and the "
            "first had not. What does your backward do if autocast was off?",
            _only_for((LATE,), _all_calls_again),
        ),
        Mistake(
            "Under autocast the second run has another precision than the first: backward is "
            "called when autocast is over. What has to be noted in forward?",
            _only_for(("bfloat16", "float16", LATE), _all_calls_again),
        ),
        Mistake(
            "The second run has bfloat16 whatever the first had. Where do you learn what autocast "
            "was like in the first run?",
            _only_for(("float16", "off", LATE), _all_calls_again),
        ),
        Mistake(
            "The result itself is not that of the function: other random numbers were drawn. Who "
            "sets the seed in your forward, and which numbers would have come without that?",
            _only_for(RANDOM, lambda *values: {"wrong_results": 1}),
        ),
        Mistake(
            "Gradients are right, and afterwards other random numbers come than without "
            "recomputation. Where does the generator stand when your backward returns, and where "
            "did it stand before?",
            _only_for(
                RANDOM,
                lambda *values: {
                    "random_numbers_off": 1,
                    "wrong_gradients_of_inputs": 0,
                    "wrong_gradients_of_parameters": 0,
                },
            ),
        ),
        Mistake(
            "With one function gradients are right, with several only those of the last: all draw "
            "its random numbers again. Where do you keep the generator's state, and for how many "
            "calls is there room?",
            _only_for(RANDOM, _state_of_the_last),
        ),
        Mistake(
            "Gradients are wrong where the function draws random numbers. Which ones does the "
            "second run draw, and which did the first?",
            _only_for(RANDOM, lambda *values: _no_gradient(*values) | {"random_numbers_off": 1}),
        ),
        Mistake(
            "Inputs get their gradients, parameters none. Which tensors do you ask gradients for, "
            "and which call would fill in those of all leaves?",
            lambda *values: {
                "wrong_gradients_of_parameters": PARAMETERS_OF_LAYER * values[2],
                "wrong_gradients_of_inputs": 0,
            },
        ),
        Mistake(
            "Parameters of the last function get their gradients, and none goes on to the input. "
            "What must a detached tensor want, so that backward fills in its `grad`?",
            lambda scenario, kind, num_layers, *_: {
                "wrong_gradients_of_inputs": _num_wanting(kind),
                "wrong_gradients_of_parameters": PARAMETERS_OF_LAYER * (num_layers - 1),
            },
        ),
        Mistake(
            "Every gradient is wrong. The result was not summed up: by what does the rest of the "
            "network want each number of it weighted?",
            _no_gradient,
        ),
        scenarios=tuple(KINDS),
    ),
)
