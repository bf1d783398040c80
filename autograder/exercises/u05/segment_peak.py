"""Check of the bytes that segments keep after the forward pass, and of their peak."""

import random
from collections.abc import Callable
from typing import Any
from weakref import ref

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo, Mistake
from course_utils.reference.recomputation import in_segments

NAMES = ("num_layers", "layers_per_segment", "boundary_bytes", "layer_bytes")

ELEMENT_BYTES = 2

# Layers, bytes of a boundary, bytes of a layer: Llama-3.2-1B at 4,096 tokens and Llama-3-70B at
# 8,192, both in bf16 with fused attention.
PUBLISHED = ((16, 16_777_216, 378_044_416), (80, 134_217_728, 2_720_071_680))


def segment_cases(seed: int) -> list[Case]:
    """Segments of one layer, of all layers, and of sizes that divide the layers or do not."""
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
    """The identity, which saves its input and ``more_bytes`` beside it."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, more_bytes: int) -> Tensor:
        ctx.save_for_backward(x, x.new_empty(more_bytes, dtype=torch.uint8))
        return x.clone()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        assert len(ctx.saved_tensors) == 2
        return grad.clone(), None


class _Layer(nn.Module):
    """A layer that saves its input and ``more_bytes`` beside it."""

    def __init__(self, more_bytes: int) -> None:
        super().__init__()
        self.more_bytes = more_bytes

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = _KeepsBytes.apply(x, self.more_bytes)  # type: ignore[no-untyped-call]
        return out


class _Kept:
    """Stands in for a saved tensor; it dies when autograd frees the tensor."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor


class _Meter:
    """Bytes that autograd holds now, and its peak."""

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
    """Bytes that autograd holds while layers of these sizes run in segments."""
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
    """The course's own answer: go through the segments from the last to the first."""
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


def _num_segments(num_layers: int, layers_per_segment: int) -> int:
    return -(-num_layers // layers_per_segment)


CHECK = Check(
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
            _after(lambda L, k, u, A: (_num_segments(L, k) - 1) * u),
        ),
        Mistake(
            "After the forward pass you keep one tensor too many. Is the result of the last "
            "segment needed to compute a segment again?",
            _after(lambda L, k, u, A: (_num_segments(L, k) + 1) * u),
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
            _peak(lambda L, k, u, A: (_num_segments(L, k) - 1) * u + k * A),
        ),
        Mistake(
            "Your peak has one boundary too many wherever k divides L, and with a short last "
            "segment too. Among the bytes of which layer is the segment's own input already?",
            _peak(lambda L, k, u, A: L // k * u + k * A),
        ),
        Mistake(
            "You take the input off every layer of the segment that runs again. Which of these "
            "inputs lies in memory as the segment's own, and which only as the layer's?",
            _peak(lambda L, k, u, A: _num_segments(L, k) * u + k * (A - u)),
        ),
        Mistake(
            "Your peak takes the last segment for the largest. Which segment keeps most when the "
            "last one is short?",
            _peak(lambda L, k, u, A: (_num_segments(L, k) - 1) * u + ((L - 1) % k + 1) * A),
        ),
        Mistake(
            "Your peak has one boundary too many. The input of the segment that runs again is also "
            "the input of its first layer: how often does it lie in memory?",
            _peak(lambda L, k, u, A: _num_segments(L, k) * u + k * A),
        ),
        Mistake(
            "Your peak is that of one segment alone. What do the segments before it still keep?",
            _peak(lambda L, k, u, A: k * A),
        ),
        Mistake(
            "Your peak runs one layer again. How many does a segment run before its first "
            "gradient?",
            _peak(lambda L, k, u, A: _num_segments(L, k) * u + A),
        ),
        Mistake(
            "Your peak runs one layer again. How many does a segment run before its first "
            "gradient, and how often does its input lie in memory?",
            _peak(lambda L, k, u, A: (_num_segments(L, k) - 1) * u + A),
        ),
        Mistake(
            "Your peak holds all layers at once. What has been freed when the segment before "
            "the last is run again?",
            _peak(lambda L, k, u, A: L * A),
        ),
    ),
)
