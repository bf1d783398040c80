"""Check of the student's own checkpoint: its bytes, calls, results and gradients."""

import random
import weakref
from collections.abc import Callable
from contextlib import nullcontext
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour, Mistake
from autograder.exercises.observing import (
    errors_as_data,
    keep,
    num_different,
    require_tensor,
    undisturbed,
)
from autograder.exercises.u03.shared.results_and_gradients import upstream
from autograder.exercises.u05.shared.counted_layer import CountedLayer, num_calls
from course_utils.instruments import SavedTensor, count_saved_bytes, storage_bytes
from course_utils.reference.recomputation import checkpoint

# Autocast that is switched on only after the forward pass.
LATE = "on in backward"

# The kinds of each scenario: how many inputs, what is drawn at random, which inputs require a
# gradient, and which precision autocast has.
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
                rows, width = 8, 8  # compiling a kernel for a new size takes ten milliseconds
            cases.append(_case(scenario, kind, num_layers, rows, width))
    return [cases[0] | {"rows": 2, "width": 3}, *cases[1:]]


def _inputs(scenario: str, kind: str, num_layers: int, rows: int, width: int) -> list[Tensor]:
    """The input of the first layer, and the tensors that scale the result of every layer."""
    generator = torch.Generator().manual_seed(rows * width)
    dtype = torch.float32 if scenario == "autocast" else torch.float64
    shapes = [(rows, width)] * (1 + NUM_SCALES.get(kind, 0))
    tensors = [torch.randn(shape, dtype=dtype, generator=generator) for shape in shapes]
    if kind == "a mask":
        tensors[1] = tensors[1] > 0
    is_trained = [kind not in ("data alone", "data and a scale"), *[kind != "a mask"] * 2]
    for tensor, requires_grad in zip(tensors, is_trained, strict=False):
        tensor.requires_grad_(requires_grad)
    return tensors


class _Trial:
    """Layers and inputs of one case, always with the same numbers."""

    def __init__(self, scenario: str, kind: str, num_layers: int, rows: int, width: int) -> None:
        torch.default_generator.manual_seed(rows * width)
        self.autocast = getattr(torch, kind) if kind in ("bfloat16", "float16") else None
        self.is_late = kind == LATE  # then gradients have another precision, and are not compared
        self.dtype = torch.float32 if scenario == "autocast" else torch.float64
        noise = kind if scenario == "random" else ""
        self.layers = [CountedLayer(width, noise, self.dtype) for _ in range(num_layers)]
        self.inputs = _inputs(scenario, kind, num_layers, rows, width)

    def forward(self, run: Checkpoint) -> Tensor:
        """Run each layer through ``run``; inputs that require a gradient are not leaves."""
        x, *scales = (t * 1 if t.requires_grad else t for t in self.inputs)
        with torch.autocast("cpu", dtype=self.autocast) if self.autocast else nullcontext():
            for layer in self.layers:
                x = require_tensor(run(layer, x, *scales))
        return x

    def step(self, run: Checkpoint) -> dict[str, Any]:
        """Run both passes, drawing random numbers in between; return all that can be observed."""
        results: list[Tensor] = []
        torch.default_generator.manual_seed(len(self.layers))
        saved = count_saved_bytes(lambda: keep(results, self.forward(run)), *self.layers)
        forward_calls = num_calls(self.layers)
        if self.layers[0].noise:
            torch.rand(3)
        values, stays = self._backward(results)
        wanted = self.autocast or self.dtype
        parameters = (each for layer in self.layers for each in layer.parameters())
        return {
            "calls_in_forward": forward_calls,
            "calls_in_backward": num_calls(self.layers) - forward_calls,
            "kept_bytes": sum(each.storage_bytes for each in saved.tensors if _is_counted(each)),
            "unseen_bytes": sum(each.storage_bytes for each in saved.unseen if _is_counted(each)),
            "precisions": [dtype == wanted for layer in self.layers for dtype in layer.dtypes],
            "result": values,
            "result_stays": stays,
            "inputs": [] if self.is_late else [each.grad for each in self.inputs],
            "parameters": [] if self.is_late else [each.grad for each in parameters],
            "random_state": torch.get_rng_state() if self.layers[0].noise else torch.empty(0),
        }

    def _backward(self, results: list[Tensor]) -> tuple[Tensor, bool]:
        """Take the only result and go back from it; return its numbers and whether it stays."""
        result = results.pop()
        loss, values = (result * upstream(result)).sum(), result.detach() + 0
        storage = weakref.ref(result.untyped_storage())
        del result
        stays = storage() is not None
        with torch.autocast("cpu", enabled=self.is_late, dtype=torch.bfloat16):
            if loss.requires_grad:
                loss.backward()
        return values, stays


def _is_counted(tensor: SavedTensor) -> bool:
    """Whether a tensor is neither the state of the generator nor a dummy of one number."""
    is_state = tensor.dtype == torch.uint8 and tensor.shape == torch.get_rng_state().shape
    return not is_state and tensor.shape not in ((), (1,))


@lru_cache(maxsize=512)
def _plain_step(*values: Any) -> dict[str, Any]:
    """What is observed of a case without recomputation."""
    with undisturbed():
        return _Trial(*values).step(lambda function, *tensors: function(*tensors))


@errors_as_data
def observe(answer: Any, case: Case) -> object:
    """A step with the student's checkpoint, beside one without recomputation."""
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
    """Each layer called once in each pass, and nothing kept but the layers' inputs."""
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


def _num_trained_inputs(kind: str) -> int:
    """How many inputs require a gradient."""
    frozen = {"data alone": 1, "data and a scale": 1, "a mask": 1}
    return 1 + NUM_SCALES.get(kind, 0) - frozen.get(kind, 0)


def _result_too(*values: Any) -> dict[str, int]:
    """The result of the last layer is kept as well."""
    case = _case(*values)
    x, *_ = _inputs(**case)
    return {"kept_bytes": wanted(**case)["kept_bytes"] + storage_bytes(x)}


def _copies(*values: Any) -> dict[str, int]:
    """Every input is kept once for each layer, shared ones too."""
    case = _case(*values)
    return {"kept_bytes": case["num_layers"] * sum(map(storage_bytes, _inputs(**case)))}


def _all_gradients_wrong(scenario: str, kind: str, num_layers: int, *_: int) -> dict[str, int]:
    return {
        "wrong_gradients_of_inputs": _num_trained_inputs(kind),
        "wrong_gradients_of_parameters": PARAMETERS_OF_LAYER * num_layers,
    }


def _only_for(
    kinds: tuple[str, ...], formula: Callable[..., dict[str, int]]
) -> Callable[..., dict[str, int]]:
    """A mistake that shows only in some kinds of cases."""
    return lambda *values: formula(*values) if values[1] in kinds else {}


def _all_calls_in_other_precision(
    scenario: str, kind: str, num_layers: int, *_: int
) -> dict[str, int]:
    return {"calls_in_other_precision": num_layers}


RANDOM = KINDS["random"]

CHECK = Check(
    cases=checkpoint_cases,
    reference=checkpoint,
    observe=observe,
    forbidden_modules=("torch.utils.checkpoint",),
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
            _result_too,
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
            _only_for(("float16",), _all_calls_in_other_precision),
        ),
        Mistake(
            "Where autocast begins only after the forward pass, the second run has it and the "
            "first had not. What does your backward do if autocast was off?",
            _only_for((LATE,), _all_calls_in_other_precision),
        ),
        Mistake(
            "Under autocast the second run has another precision than the first: backward is "
            "called when autocast is over. What has to be noted in forward?",
            _only_for(("bfloat16", "float16", LATE), _all_calls_in_other_precision),
        ),
        Mistake(
            "The second run has bfloat16 whatever the first had. Where do you learn what autocast "
            "was like in the first run?",
            _only_for(("float16", "off", LATE), _all_calls_in_other_precision),
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
            _only_for(
                RANDOM,
                lambda scenario, kind, num_layers, *_: {
                    "wrong_gradients_of_inputs": 1,
                    "wrong_gradients_of_parameters": PARAMETERS_OF_LAYER * (num_layers - 1),
                },
            ),
        ),
        Mistake(
            "Gradients are wrong where the function draws random numbers. Which ones does the "
            "second run draw, and which did the first?",
            _only_for(
                RANDOM, lambda *values: _all_gradients_wrong(*values) | {"random_numbers_off": 1}
            ),
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
                "wrong_gradients_of_inputs": _num_trained_inputs(kind),
                "wrong_gradients_of_parameters": PARAMETERS_OF_LAYER * (num_layers - 1),
            },
        ),
        Mistake(
            "Every gradient is wrong. The result was not summed up: by what does the rest of the "
            "network want each number of it weighted?",
            _all_gradients_wrong,
        ),
        scenarios=tuple(KINDS),
    ),
)
