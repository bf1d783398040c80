"""Check of the bytes that segments keep after the forward pass, and of their peak."""

import random
from typing import Any
from weakref import ref

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.exercises.model_answers import mistakes_of
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


CHECK = Check(
    cases=segment_cases,
    judge=EqualTo(measured_segment_bytes, *mistakes_of("u05-segment-peak")),
    fallback="course_utils.formulas.recomputation.segment_bytes",
    answers=("course_utils.reference.recomputation",),
)
