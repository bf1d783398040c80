"""Checks of segments: what is kept, and how many layers a segment should have."""

import random
from collections.abc import Callable
from math import sqrt
from typing import Any
from weakref import ref

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from autograder.checking.check import Case, Check
from autograder.checking.judges import EqualTo, Mistake
from course_utils.reference.recomputation import in_segments

NAMES = ("num_layers", "layers_per_segment", "boundary_bytes", "layer_bytes")
ELEMENT_BYTES = 2

# Layers, bytes of a boundary, bytes of a layer: Llama-3.2-1B at 4,096 tokens and Llama-3-70B at
# 8,192, both in bf16 with fused attention.
PUBLISHED = ((16, 16_777_216, 378_044_416), (80, 134_217_728, 2_720_071_680))


def segment_cases(seed: int) -> list[Case]:
    """One layer a segment, all of them, sizes that divide the layers, and sizes that do not."""
    rng = random.Random(seed)
    sizes = [(7, 3, 12, 50)]
    for num_layers in (rng.randint(5, 9), rng.randint(10, 15), rng.randint(16, 24)):
        for size in (1, 2, 3, 4, num_layers // 2 + 1, num_layers):
            boundary = ELEMENT_BYTES * rng.randint(2, 99)
            sizes.append((num_layers, size, boundary, rng.randint(2, 30) * boundary + 1))
    sizes.append((12, 4, 2 * rng.randint(20, 40), 2 * rng.randint(41, 50)))
    sizes += [(layers, 3, boundary, layer) for layers, boundary, layer in PUBLISHED]
    return [dict(zip(NAMES, each, strict=True)) for each in sizes]


class _KeepsBytes(torch.autograd.Function):
    """The input itself, of which it keeps the storage and more bytes beside it."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, more_bytes: int) -> Tensor:
        ctx.save_for_backward(x, x.new_empty(more_bytes, dtype=torch.uint8))
        return x.clone()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        assert len(ctx.saved_tensors) == 2
        return grad.clone(), None


class _Layer(nn.Module):
    """A layer that keeps its input and as many bytes beside it as it is told."""

    def __init__(self, more_bytes: int) -> None:
        super().__init__()
        self.more_bytes = more_bytes

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = _KeepsBytes.apply(x, self.more_bytes)  # type: ignore[no-untyped-call]
        return out


class _Kept:
    """What autograd holds in place of a tensor, until it lets go of it."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor


class _Meter:
    """Bytes that autograd holds now, and the most that it held at once."""

    def __init__(self) -> None:
        self.refs: list[ref[_Kept]] = []
        self.peak_bytes = 0

    def pack(self, tensor: Tensor) -> _Kept:
        kept = _Kept(tensor.detach())
        self.refs.append(ref(kept))
        self.peak_bytes = max(self.peak_bytes, self.held_bytes())
        return kept

    def held_bytes(self) -> int:
        held = [kept.tensor.untyped_storage() for kept in (each() for each in self.refs) if kept]
        return sum({storage._cdata: storage.nbytes() for storage in held}.values())


def measured_segment_bytes(
    num_layers: int, layers_per_segment: int, boundary_bytes: int, layer_bytes: int
) -> dict[str, int]:
    """What autograd holds while such layers run in segments, forward and backward."""
    layers = [_Layer(layer_bytes - boundary_bytes) for _ in range(num_layers)]
    chain = nn.Sequential(*in_segments(layers, layers_per_segment))
    count, meter = boundary_bytes // ELEMENT_BYTES, _Meter()
    x = torch.empty(count, dtype=torch.bfloat16, device="meta", requires_grad=True)
    with saved_tensors_hooks(meter.pack, lambda kept: kept.tensor):
        out = chain(x)
        after_forward = meter.held_bytes()
        out.backward(torch.empty_like(out))
    return {"after_forward": after_forward, "peak": meter.peak_bytes}


def segment_bytes(
    num_layers: int, layers_per_segment: int, boundary_bytes: int, layer_bytes: int
) -> dict[str, int]:
    """The course's own answer: one segment after the other taken from the end."""
    left, peak = num_layers, 0
    inputs = len(range(0, num_layers, layers_per_segment))
    after_forward = inputs * boundary_bytes
    while left:
        inputs -= 1
        in_segment = left - inputs * layers_per_segment
        peak = max(peak, inputs * boundary_bytes + in_segment * layer_bytes)
        left -= in_segment
    return {"after_forward": after_forward, "peak": peak}


def _after(wrong: Callable[[int, int, int, int], int]) -> Callable[..., dict[str, int]]:
    return lambda *case: {"after_forward": wrong(*case)}


def _peak(wrong: Callable[[int, int, int, int], int]) -> Callable[..., dict[str, int]]:
    return lambda *case: {"peak": wrong(*case)}


def _up(total: int, part: int) -> int:
    return -(-total // part)


SEGMENT_BYTES = Check(
    cases=segment_cases,
    reference=segment_bytes,
    judge=EqualTo(
        measured_segment_bytes,
        Mistake(
            "After the forward pass you lose an input wherever k does not divide L. Does a short "
            "last segment keep its input too?",
            _after(lambda L, k, u, A: L // k * u),
        ),
        Mistake(
            "After the forward pass you keep the input of every layer. Which of them can be made "
            "again from the input of their segment?",
            _after(lambda L, k, u, A: L * u),
        ),
        Mistake(
            "After the forward pass one input is missing. From what is the first segment computed "
            "again?",
            _after(lambda L, k, u, A: (_up(L, k) - 1) * u),
        ),
        Mistake(
            "After the forward pass you keep one tensor too many. Is the result of the last "
            "segment needed to compute a segment again?",
            _after(lambda L, k, u, A: (_up(L, k) + 1) * u),
        ),
        Mistake(
            "You keep one boundary for each layer of a segment. How many segments are there?",
            _after(lambda L, k, u, A: k * u),
        ),
        Mistake(
            "After the forward pass you keep what every layer keeps. Who wrote down anything "
            "inside a segment by then?",
            _after(lambda L, k, u, A: L * A),
        ),
        Mistake(
            "Your peak is too high, and only where k does not divide L. How many layers has the "
            "last segment there? And which inputs are still kept when the one before it runs?",
            _peak(lambda L, k, u, A: (_up(L, k) - 1) * u + k * A),
        ),
        Mistake(
            "Your peak has one boundary too many wherever k divides L, and with a short last "
            "segment too. Among the bytes of which layer is the segment's own input already?",
            _peak(lambda L, k, u, A: L // k * u + k * A),
        ),
        Mistake(
            "You take the input off every layer of the segment that runs again. Which of these "
            "inputs lies in memory as the segment's own, and which only as the layer's?",
            _peak(lambda L, k, u, A: _up(L, k) * u + k * (A - u)),
        ),
        Mistake(
            "Your peak takes the last segment for the largest. Which segment keeps most when the "
            "last one is short?",
            _peak(lambda L, k, u, A: (_up(L, k) - 1) * u + (L - (_up(L, k) - 1) * k) * A),
        ),
        Mistake(
            "Your peak has one boundary too many. The input of the segment that runs again is also "
            "the input of its first layer: how often does it lie in memory?",
            _peak(lambda L, k, u, A: _up(L, k) * u + k * A),
        ),
        Mistake(
            "Your peak is that of one segment alone. What do the segments before it still keep?",
            _peak(lambda L, k, u, A: k * A),
        ),
        Mistake(
            "Your peak runs one layer again. How many does a segment run before its first "
            "gradient?",
            _peak(lambda L, k, u, A: _up(L, k) * u + A),
        ),
        Mistake(
            "Your peak runs one layer again. How many does a segment run before its first "
            "gradient, and how often does its input lie in memory?",
            _peak(lambda L, k, u, A: (_up(L, k) - 1) * u + A),
        ),
        Mistake(
            "Your peak holds all layers at once. What has been freed when the segment before "
            "the last is run again?",
            _peak(lambda L, k, u, A: L * A),
        ),
    ),
)

# Every known mistake gives another number here, so that no one is taken for another.
TELLING = (85, 1, 2)
LAYER_NAMES = ("num_layers", "boundary_bytes", "layer_bytes")


def best_cases(seed: int) -> list[Case]:
    """Layers that keep little or much beside their input; equal peaks; one layer; real models."""
    rng = random.Random(seed)
    sizes = [(16, 12, 12)]
    for lowest, highest in ((1, 1), (2, 3), (4, 9), (10, 40)):
        for num_layers in (9, rng.randint(10, 19), rng.randint(20, 39), rng.randint(40, 99)):
            boundary = rng.randint(2, 99)
            sizes.append((num_layers, boundary, rng.randint(lowest, highest) * boundary))
    sizes += [TELLING, (1, 12, 50), *PUBLISHED]
    return [dict(zip(LAYER_NAMES, each, strict=True)) for each in sizes]


def simulated_best(num_layers: int, boundary_bytes: int, layer_bytes: int) -> int:
    """The same by going through the backward pass of each length of segment, in a simulation."""
    peaks = {}
    for size in range(1, num_layers + 1):
        layers = list(range(num_layers))
        segments = [layers[first : first + size] for first in range(0, num_layers, size)]
        seen = []
        while segments:
            running = segments.pop()
            seen.append(len(segments) * boundary_bytes + len(running) * layer_bytes)
        peaks[size] = max(seen)
    return min(peaks, key=lambda size: (peaks[size], size))


def _full_segments_peak(num_layers: int, size: int, boundary_bytes: int, layer_bytes: int) -> int:
    """The last full segment is the peak: the layers of a short one behind it weigh less."""
    return (num_layers // size - 1) * boundary_bytes + size * layer_bytes


def best_layers_per_segment(num_layers: int, boundary_bytes: int, layer_bytes: int) -> int:
    """The course's own answer, under the name that the exercise asks for."""
    sizes = range(1, num_layers + 1)
    return min(sizes, key=lambda k: _full_segments_peak(num_layers, k, boundary_bytes, layer_bytes))


def _within(size: float, num_layers: int) -> int:
    return min(max(1, round(size)), num_layers)


BEST_SEGMENT = Check(
    cases=best_cases,
    reference=best_layers_per_segment,
    judge=EqualTo(
        simulated_best,
        Mistake(
            "Your segments are right wherever there is one best length. Which of several does the "
            "exercise ask for?",
            lambda L, u, A: min(range(L, 0, -1), key=lambda k: _full_segments_peak(L, k, u, A)),
        ),
        Mistake(
            "You take the square root of the layers always. What would a layer have to keep for "
            "that to be best?",
            lambda L, u, A: round(sqrt(L)),
        ),
        Mistake(
            "That is the number of segments by the estimate. How many layers has each of them?",
            lambda L, u, A: _within(sqrt(L * A / u), L),
        ),
        Mistake(
            "That is the estimate, rounded. It takes segments for equally long: which lengths near "
            "it keep less?",
            lambda L, u, A: _within(sqrt(L * u / A), L),
        ),
        Mistake(
            "You look for the fewest bytes after the forward pass. When are the most bytes kept?",
            lambda L, u, A: L,
        ),
        Mistake(
            "You take one layer always. What if a layer keeps hardly more than its input?",
            lambda L, u, A: 1,
        ),
        Mistake(
            "You count a short last segment like a full one. What is kept while it runs, and what "
            "while the one before it runs?",
            lambda L, u, A: min(range(1, L + 1), key=lambda k: (_up(L, k) - 1) * u + k * A),
        ),
    ),
)
