"""Check of the bytes that segments keep after the forward pass, and of their peak."""

import random
from typing import Any
from weakref import ref

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.exercises.model_answers import Edit, edited
from course_utils.reference.recomputation import in_segments

NAMES = ("num_layers", "layers_per_segment", "boundary_bytes", "layer_bytes")

ELEMENT_BYTES = 2

# Bytes of a boundary, bytes of a layer: Llama-3.2-1B at 4,096 tokens and Llama-3-70B at
# 8,192, both in bf16 with fused attention.
PUBLISHED = ((16_777_216, 378_044_416), (134_217_728, 2_720_071_680))
# Both results are odd numbers of bytes, or of two bytes, beyond what a float holds.
BEYOND_A_FLOAT = (199, 7, 2**49 + 2, 2**50 + 1)


def segment_cases(seed: int) -> list[Case]:
    """Segments of one layer, of all layers and of more; sizes that divide the layers or do not."""
    rng = random.Random(seed)
    sizes = [(7, 3, 12, 50)]
    for num_layers in (rng.randint(5, 9), rng.randint(10, 15), rng.randint(16, 24)):
        for size in (1, 2, 3, 4, num_layers // 2 + 1, num_layers, num_layers + 2):
            boundary = ELEMENT_BYTES * rng.randint(2, 99)
            sizes.append((num_layers, size, boundary, rng.randint(2, 30) * boundary + 1))
    sizes.append((12, 4, 2 * rng.randint(20, 40), 2 * rng.randint(41, 50)))
    sizes += [(rng.randint(7, 99), 3, boundary, layer) for boundary, layer in PUBLISHED]
    num_layers, size, boundary, layer = BEYOND_A_FLOAT
    sizes.append((num_layers, size, boundary, layer + 4 * rng.randint(0, 999)))
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


# Places of the model answer, and sizes in its words.
AFTER, PEAK = "len(starts) * boundary_bytes", "max(at_once)"
INPUTS, RUNNING = (
    "num_inputs_before * boundary_bytes",
    "min(layers_per_segment, num_layers - start)",
)
BYTES = "running * layer_bytes"
LAYERS, K, SEGMENTS = "num_layers", "layers_per_segment", "len(starts)"


def _half(hint: str, *edits: dict[str, str]) -> list[Edit]:
    """A mistake in one of the two numbers, in some spellings."""
    return [Edit(hint, pieces, points=1.0) for pieces in edits]


def _sum(num_inputs: str, layers: str) -> dict[str, str]:
    """A peak of so many inputs, and the bytes of some layers."""
    return {PEAK: f"{num_inputs} * boundary_bytes + {layers}"}


FULL = f"{K} * layer_bytes"
EDITS = (
    *_half(
        "After the forward pass you lose an input wherever k does not divide L. Does a short last "
        "segment keep its input too?",
        {AFTER: f"{LAYERS} // {K} * boundary_bytes"},
    ),
    *_half(
        "After the forward pass you keep the input of every layer. Which of them can be made again "
        "from the input of their segment?",
        {AFTER: f"{LAYERS} * boundary_bytes"},
    ),
    *_half(
        "After the forward pass one input is missing. What is the first segment computed from "
        "again?",
        {AFTER: f"({SEGMENTS} - 1) * boundary_bytes"},
    ),
    *_half(
        "After the forward pass you keep one tensor too many. Is the result of the last segment "
        "needed to compute a segment again?",
        {AFTER: f"({SEGMENTS} + 1) * boundary_bytes"},
        {AFTER: f"({LAYERS} // {K} + 1) * boundary_bytes"},
    ),
    *_half(
        "You keep one boundary for each layer of a segment. How many segments are there?",
        {AFTER: f"{K} * boundary_bytes"},
    ),
    *_half(
        "After the forward pass you keep all that every layer keeps. What was freed inside a "
        "segment by then?",
        {AFTER: f"{LAYERS} * layer_bytes"},
    ),
    *_half(
        "Your peak is wrong only where a segment could hold more layers than there are. How "
        "many does it hold then, and how many inputs come before it?",
        {PEAK: f"({LAYERS} // {K} - 1) * boundary_bytes + {FULL}"},
    ),
    *_half(
        "Your peak is too high, and only where k does not divide L. How many layers has the last "
        "segment there? And which inputs are still kept when the one before it runs?",
        {RUNNING: K},
    ),
    *_half(
        "Your peak has one boundary too many wherever k divides L, and with a short last segment "
        "too. Among the bytes of which layer is the segment's own input already?",
        _sum(f"({LAYERS} // {K})", FULL),
        {INPUTS: "(num_inputs_before + 1) * boundary_bytes"},
    ),
    *_half(
        "You subtract the input from every layer of the segment that runs again. Which of these "
        "inputs was there before, and which are made again?",
        _sum(SEGMENTS, f"{K} * (layer_bytes - boundary_bytes)"),
        {
            INPUTS: "(num_inputs_before + 1) * boundary_bytes",
            BYTES: "running * (layer_bytes - boundary_bytes)",
        },
    ),
    *_half(
        "Your peak takes the last segment for the largest. Which segment keeps most when the last "
        "one is short?",
        {PEAK: "at_once[-1]"},
    ),
    *_half(
        "Your peak has one boundary too many. The input of the segment that runs again is also "
        "the input of its first layer: how many times is it in memory?",
        _sum(SEGMENTS, FULL),
    ),
    *_half(
        "Your peak is that of one segment alone. What do the segments before it still keep?",
        {PEAK: FULL},
    ),
    *_half(
        "Your peak runs one layer again. How many does a segment run before its first gradient?",
        _sum(SEGMENTS, "layer_bytes"),
    ),
    *_half(
        "Your peak runs one layer again. How many does a segment run before its first gradient, "
        "and how many times is its input in memory?",
        _sum(f"({SEGMENTS} - 1)", "layer_bytes"),
    ),
    *_half(
        "Your peak holds all layers at once. What has been freed when the segment before the last "
        "is run again?",
        {PEAK: f"{LAYERS} * layer_bytes"},
        {PEAK: f"({SEGMENTS} - 1) * boundary_bytes + {LAYERS} * layer_bytes"},
    ),
    *_half(
        "Your last segment has no layers where k divides L. What is the remainder there, and how "
        "long is the segment?",
        {
            RUNNING: f"{K} if start + {K} < num_layers else num_layers % {K}",
        },
    ),
    *_half(
        "One layer too few of the segment runs again. Does its first layer record too?",
        {BYTES: "(running - 1) * layer_bytes"},
    ),
    *_half(
        "You count the inputs of the layers that run again beside their A bytes. What is among "
        "these bytes already?",
        {BYTES: "running * (layer_bytes + boundary_bytes)"},
    ),
    Edit(
        "Both numbers are there, each under the other's name. Which of them is the larger?",
        {'"after_forward": len': '"peak": len', '"peak": max': '"after_forward": max'},
    ),
    *_half(
        "Your peak adds up moments that come one after the other. Which of them is the worst?",
        {PEAK: "sum(at_once)"},
    ),
)

CHECK = Check(
    cases=segment_cases,
    judge=EqualTo(measured_segment_bytes, *edited("u05-segment-peak", EDITS)),
    fallback="course_utils.formulas.recomputation.segment_bytes",
    answers=("course_utils.reference.recomputation",),
)
