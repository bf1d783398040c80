"""Activation recomputation: save less for the backward pass, and recompute the rest there.

`checkpoint` is the idea in one function: run forward without recording, save the inputs, and in the
backward pass run again with recording, with the same random numbers and the same autocast. The
policy is what to checkpoint: segments of layers, or the attention core of each layer
(`Kernels.is_attention_recomputed`), or all but the results of chosen operations.

    >>> x = torch.ones(2, 3, requires_grad=True)
    >>> checkpoint(torch.exp, x).sum().backward()

Sources: Chen et al. 2016, Training Deep Nets with Sublinear Memory Cost; Korthikanti et al. 2022,
section 5; PyTorch documentation, `torch.utils.checkpoint`.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.functional import cross_entropy
from torch.utils.checkpoint import CheckpointPolicy, get_device_states, set_device_states

aten = torch.ops.aten

# Matrix products and fused attention: nearly all of a layer's FLOPs.
PRODUCTS = (
    aten.mm.default,
    aten.addmm.default,
    aten.bmm.default,
    aten._scaled_dot_product_flash_attention_for_cpu.default,
)


def checkpoint(function: Callable[..., Tensor], *tensors: Tensor) -> Tensor:
    """Return ``function(*tensors)``, and save only the inputs for the backward pass.

    The backward pass calls the function again and runs backward through it at once, so gradients
    also reach the parameters inside. It has to start from ``backward()``: asking for some gradients
    with ``torch.autograd.grad`` would also fill ``grad`` of the others.

    Args:
        function: Returns one tensor; both calls must compute the same.
        tensors: All of its inputs that require gradients, and any others; at least one.

    Raises:
        TypeError: If there is no tensor, or an argument is not a tensor.
    """
    if not tensors or not all(isinstance(each, Tensor) for each in tensors):
        kinds = ", ".join(type(each).__name__ for each in tensors) or "nothing"
        raise TypeError(f"checkpoint wants a function and its input tensors, got {kinds}")
    # If no input requires a gradient, this dummy makes autograd run backward for the parameters.
    dummy = torch.empty(0, requires_grad=True)
    out: Tensor = _Recomputed.apply(function, dummy, *tensors)  # type: ignore[no-untyped-call]
    return out


class _Recomputed(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, function: Callable[..., Tensor], dummy: Tensor, *tensors: Tensor
    ) -> Tensor:
        ctx.function, ctx.state = function, _ExecutionState.capture(tensors)
        ctx.save_for_backward(*tensors)
        return function(*tensors)  # autograd records nothing inside a Function

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        inputs = [each.detach().requires_grad_(each.requires_grad) for each in ctx.saved_tensors]
        with torch.enable_grad(), ctx.state.restored():
            out = ctx.function(*inputs)
        if out.requires_grad:
            torch.autograd.backward(out, grad)
        return None, None, *(each.grad for each in inputs)


@dataclass(frozen=True, kw_only=True)
class _ExecutionState:
    """What a result depends on besides the inputs: random number generators and autocast."""

    cpu_state: Tensor
    device_ids: list[int]
    device_states: list[Tensor]
    autocast: torch.autocast

    @classmethod
    def capture(cls, tensors: Sequence[Tensor]) -> "_ExecutionState":
        ids, states = get_device_states(*tensors)
        return cls(
            cpu_state=torch.get_rng_state(),
            device_ids=ids,
            device_states=states,
            autocast=_current_autocast(tensors[0].device.type),
        )

    @contextmanager
    def restored(self) -> Iterator[None]:
        """Restore the captured state inside; on exit the generators are where they were before."""
        with torch.random.fork_rng(self.device_ids), self.autocast:
            torch.set_rng_state(self.cpu_state)
            set_device_states(self.device_ids, self.device_states)
            yield


def _current_autocast(device: str) -> torch.autocast:
    """A context manager that repeats the autocast settings of this moment."""
    device = "cpu" if device == "meta" else device
    return torch.autocast(
        device,
        dtype=torch.get_autocast_dtype(device),
        enabled=torch.is_autocast_enabled(device),
    )


class Segment(nn.Module):
    """Consecutive layers that save their input alone."""

    def __init__(self, layers: Iterable[nn.Module]) -> None:
        super().__init__()
        self.layers = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        """From (b, s, h) to (b, s, h)."""
        return checkpoint(self.layers, x)


def in_segments(layers: Sequence[nn.Module], layers_per_segment: int = 1) -> nn.ModuleList:
    """The same layers, recomputed in segments; the last may be shorter.

    One layer per segment is full recomputation: ``model.blocks = in_segments(model.blocks)``.

    Raises:
        ValueError: If a segment would have no layer.
    """
    if layers_per_segment < 1:
        raise ValueError(
            f"in_segments: layers_per_segment must be above zero, got {layers_per_segment}"
        )
    starts = range(0, len(layers), layers_per_segment)
    return nn.ModuleList(
        Segment(list(layers)[start : start + layers_per_segment]) for start in starts
    )


def run_in_segments(
    layers: Sequence[nn.Module],
    x: Tensor,
    layers_per_segment: int,
    checkpoint: Callable[..., Tensor],
) -> Tensor:
    """Layers in a row, every ``layers_per_segment`` of them through one ``checkpoint``."""
    rest = list(layers)
    while rest:
        segment, rest = rest[:layers_per_segment], rest[layers_per_segment:]
        x = checkpoint(nn.Sequential(*segment), x)
    return x


def save_products(ctx: Any, op: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
    """A policy that saves the results of products, and recomputes all others."""
    is_product = op in PRODUCTS
    return CheckpointPolicy.MUST_SAVE if is_product else CheckpointPolicy.PREFER_RECOMPUTE


def loss_in_pieces(
    hidden: Tensor,
    weight: Tensor,
    targets: Tensor,
    num_pieces: int,
    checkpoint: Callable[..., Tensor],
) -> Tensor:
    """Mean cross-entropy of logits ``hidden @ weight.T`` that never live all at once.

    Each piece of the tokens goes through ``checkpoint``, so that no piece keeps its log-softmax.
    """
    total = hidden.new_zeros(())
    for part, some in zip(
        hidden.tensor_split(num_pieces), targets.tensor_split(num_pieces), strict=True
    ):
        total = total + checkpoint(_summed_loss, part, weight, some)
    return total / len(targets)


def _summed_loss(hidden: Tensor, weight: Tensor, targets: Tensor) -> Tensor:
    return cross_entropy(hidden @ weight.T, targets, reduction="sum")
