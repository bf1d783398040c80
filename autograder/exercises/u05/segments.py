"""Check of layers that are recomputed in segments."""

import random
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn

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
from course_utils.instruments import count_saved_bytes, trace_memory
from course_utils.reference.recomputation import checkpoint, in_segments

FLOAT64_BYTES = 8
NAMES = ("num_layers", "layers_per_segment", "rows", "width")

Run = Callable[..., Tensor]


def run_in_segments(
    layers: Sequence[nn.Module],
    x: Tensor,
    layers_per_segment: int,
    checkpoint: Run,
) -> Tensor:
    """The course's own answer."""
    for start in range(0, len(layers), layers_per_segment):
        x = checkpoint(nn.Sequential(*layers[start : start + layers_per_segment]), x)
    return x


def segment_cases(seed: int) -> list[Case]:
    """Segments of one layer, of all layers, longer than all, and with a shorter last one."""
    rng = random.Random(seed)
    pairs = [(5, 2), (1, 1), (3, 1), (4, 2), (6, 2), (4, 4), (3, 5), (5, 3)]
    while len(pairs) < 20:
        num_layers = rng.randint(3, 5)
        pairs.append((num_layers, rng.randint(2, num_layers - 1)))
    rows = [50, *(rng.randint(40, 60) for _ in pairs[1:])]
    return [
        dict(zip(NAMES, (*pair, n, 3), strict=True)) for pair, n in zip(pairs, rows, strict=True)
    ]


class _Trial:
    """Layers and an input of one case, always with the same numbers."""

    def __init__(self, num_layers: int, layers_per_segment: int, rows: int, width: int) -> None:
        torch.default_generator.manual_seed(rows * num_layers)
        self.layers = [CountedLayer(width) for _ in range(num_layers)]
        self.size = layers_per_segment
        self.x = torch.randn(rows, width, dtype=torch.float64, requires_grad=True)

    def forward(self, answer: Run) -> Tensor:
        return require_tensor(answer(list(self.layers), self.x * 1, self.size, checkpoint))

    def step(self, answer: Run) -> None:
        result = self.forward(answer)
        if result.requires_grad:
            result.backward(upstream(result))

    @property
    def gradients(self) -> list[Tensor | None]:
        return [self.x.grad, *(p.grad for layer in self.layers for p in layer.parameters())]


@errors_as_data
def observe(answer: Any, case: Case) -> object:
    """Results, bytes and calls of the student's segments."""
    with undisturbed():
        return _observed(answer, **case)


def _observed(answer: Run, **case: int) -> dict[str, int]:
    trial, oracle, results = _Trial(**case), _Trial(**case), list[Tensor]()
    saved = count_saved_bytes(lambda: keep(results, trial.forward(answer)), *trial.layers)
    forward_calls = num_calls(trial.layers)
    if results[0].requires_grad:
        results[0].backward(upstream(results[0]))
    plain = nn.Sequential(*oracle.layers)(oracle.x)
    plain.backward(upstream(plain))
    return {
        "calls_in_forward": forward_calls,
        "calls_in_backward": num_calls(trial.layers) - forward_calls,
        "layers_called_twice": sum(layer.num_calls == 2 for layer in trial.layers),
        "kept_bytes": saved.total_bytes,
        "unseen_bytes": saved.unseen_bytes,
        "wrong_results": num_different(results, [plain]),
        "wrong_gradients": num_different(trial.gradients, oracle.gradients),
        "peak_bytes": _peak_bytes(answer, **case),
    }


def _peak_bytes(answer: Run, **case: int) -> int:
    """Peak live bytes of a separate traced step, or zero for an even number of layers."""
    if case["num_layers"] % 2 == 0:
        return 0
    trial = _Trial(**case)
    return trace_memory(lambda: trial.step(answer), *trial.layers, trial.x).peak_bytes


def _with_course_segments(
    layers: Any, x: Tensor, layers_per_segment: int, checkpoint: Run
) -> Tensor:
    for segment in in_segments(layers, layers_per_segment):
        x = segment(x)
    return x


def wanted(**case: int) -> dict[str, int]:
    """Each layer twice, one boundary for each segment, and the peak of the course's segments."""
    with undisturbed():
        seen = _observed(_with_course_segments, **case)
    layers, size = case["num_layers"], case["layers_per_segment"]
    return seen | {
        "calls_in_forward": layers,
        "calls_in_backward": layers,
        "layers_called_twice": layers,
        "kept_bytes": -(-layers // size) * _boundary_bytes(**case),
    }


def _boundary_bytes(rows: int, width: int, **_: int) -> int:
    return FLOAT64_BYTES * rows * width


def _kept_of(num_segments: Callable[[int, int], int]) -> Callable[..., dict[str, int]]:
    """That number of boundaries is kept, and results are right."""
    return lambda layers, size, rows, width: {
        "kept_bytes": num_segments(layers, size) * _boundary_bytes(rows, width),
        "wrong_results": 0,
        "wrong_gradients": 0,
    }


def _len_of_last(layers: int, size: int) -> int:
    return (layers - 1) % size + 1


@lru_cache(maxsize=512)
def _with_length_for_number(*values: int) -> dict[str, int]:
    """What is observed if the length of a segment is taken for the number of segments."""
    layers, num_segments, *_ = values
    size = -(-layers // num_segments)
    with undisturbed():
        peak = _peak_bytes(
            lambda layers, x, _, checkpoint: run_in_segments(layers, x, size, checkpoint),
            **dict(zip(NAMES, values, strict=True)),
        )
    return _kept_of(lambda *_: -(-layers // size))(*values) | {"peak_bytes": peak}


CHECK = Check(
    cases=segment_cases,
    reference=run_in_segments,
    observe=observe,
    forbidden_modules=("torch.utils.checkpoint",),
    judge=Behaviour(
        wanted,
        Mistake(
            "Every layer runs once: nothing is recomputed. Through what does each segment have to "
            "go?",
            lambda layers, *_: {"calls_in_backward": 0},
        ),
        Mistake(
            "The layers of the last segment run once and keep everything. Which segment is gone "
            "through first in backward, and what would it cost to recompute it too?",
            lambda layers, size, *_: {"calls_in_backward": layers - _len_of_last(layers, size)},
        ),
        Mistake(
            "In backward each layer runs twice: a checkpoint runs again what holds a checkpoint. "
            "How many checkpoints does a layer lie in?",
            lambda layers, *_: {"calls_in_backward": 2 * layers},
        ),
        Mistake(
            "Some layers never run. What becomes of those that are left when the length of a "
            "segment does not divide their number?",
            lambda layers, size, *_: {"calls_in_forward": layers // size * size},
        ),
        Mistake(
            "The forward pass calls layers more than once. Where does each of your segments "
            "begin, and what comes into it?",
            lambda layers, size, *_: {
                "calls_in_forward": sum(min(n, layers) for n in range(size, layers + size, size))
            },
        ),
        Mistake(
            "The result is right, and in backward every segment runs the layers of the last one. "
            "When does your function look up its variables, and what do they hold by then?",
            lambda layers, size, *_: {
                "calls_in_backward": -(-layers // size) * _len_of_last(layers, size),
                "layers_called_twice": 0,
                "wrong_results": 0,
            },
        ),
        Mistake(
            "One tensor is kept, however many segments there should be. How many layers stand "
            "between two tensors that you keep?",
            _kept_of(lambda layers, size: 1),
        ),
        Mistake(
            "The input of every layer is kept. Which of them can be computed again from the input "
            "of its segment?",
            _kept_of(lambda layers, size: layers),
        ),
        Mistake(
            "The number of segments is not right. Is `layers_per_segment` how many segments there "
            "are, or how long each is?",
            _with_length_for_number,
        ),
        Mistake(
            "The result is wrong, and in backward the last segment runs alone. What comes into it?",
            lambda layers, size, rows, width: {
                "calls_in_backward": _len_of_last(layers, size),
                "kept_bytes": _boundary_bytes(rows, width),
                "wrong_results": 1,
            },
        ),
    ),
)
