"""Keep less for the backward pass and compute the rest again when it comes.

`checkpoint` is the idea in one function: run forward without recording, keep the inputs, and in the
backward pass run again with recording, under the same random numbers and the same autocast. What
is checkpointed decides the policy: segments of layers, or in each layer the core of its attention
(`Kernels.is_attention_recomputed`), or all but the results of chosen operations.

    >>> x = torch.ones(2, 3, requires_grad=True)
    >>> checkpoint(torch.exp, x).sum().backward()

Sources: Chen et al. 2016, Training Deep Nets with Sublinear Memory Cost; Korthikanti et al. 2022,
section 5; PyTorch documentation, `torch.utils.checkpoint`.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.utils.checkpoint import checkpoint as torch_checkpoint
from torch.utils.checkpoint import (
    create_selective_checkpoint_contexts,
    get_device_states,
    set_device_states,
)

aten = torch.ops.aten

# Matrix products and fused attention: nearly all of a layer's FLOPs.
PRODUCTS = (
    aten.mm.default,
    aten.addmm.default,
    aten.bmm.default,
    aten._scaled_dot_product_flash_attention_for_cpu.default,
)


def checkpoint(function: Callable[..., Tensor], *tensors: Tensor) -> Tensor:
    """``function(*tensors)``, of which only the inputs are kept for the backward pass.

    The backward pass calls the function again and goes back through it at once, so that gradients
    also reach the parameters inside. It has to start from ``backward()``: to ask for some of the
    gradients with ``torch.autograd.grad`` would fill in the others, too.

    Args:
        function: Gives one tensor; called twice, it must do the same.
        tensors: All of its inputs that want gradients, and others; at least one.

    Raises:
        TypeError: If there is no tensor, or an argument is none.
    """
    if not tensors or not all(isinstance(each, Tensor) for each in tensors):
        kinds = ", ".join(type(each).__name__ for each in tensors) or "nothing"
        raise TypeError(f"checkpoint wants a function and its input tensors, got {kinds}")
    # The backward pass is wanted for parameters even where no input wants a gradient.
    wanting = torch.empty(0, requires_grad=True)
    out: Tensor = _Recomputed.apply(function, wanting, *tensors)  # type: ignore[no-untyped-call]
    return out


class _Recomputed(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, function: Callable[..., Tensor], wanting: Tensor, *tensors: Tensor
    ) -> Tensor:
        ctx.function, ctx.surroundings = function, _Surroundings.of(tensors)
        ctx.save_for_backward(*tensors)
        return function(*tensors)  # nothing is recorded in here

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        inputs = [each.detach().requires_grad_(each.requires_grad) for each in ctx.saved_tensors]
        with torch.enable_grad(), ctx.surroundings.again():
            out = ctx.function(*inputs)
        if out.requires_grad:
            torch.autograd.backward(out, grad)
        return None, None, *(each.grad for each in inputs)


@dataclass(frozen=True, kw_only=True)
class _Surroundings:
    """What a function's result depends on beside its inputs: random numbers and autocast."""

    cpu_state: Tensor
    device_ids: list[int]
    device_states: list[Tensor]
    autocast: torch.autocast

    @classmethod
    def of(cls, tensors: Sequence[Tensor]) -> "_Surroundings":
        ids, states = get_device_states(*tensors)
        return cls(
            cpu_state=torch.get_rng_state(),
            device_ids=ids,
            device_states=states,
            autocast=_autocast_now(tensors[0].device.type),
        )

    @contextmanager
    def again(self) -> Iterator[None]:
        """As it was then; afterwards the random numbers go on as if nothing had been drawn."""
        with torch.random.fork_rng(self.device_ids), self.autocast:
            torch.set_rng_state(self.cpu_state)
            set_device_states(self.device_ids, self.device_states)
            yield


def _autocast_now(device: str) -> torch.autocast:
    """Autocast as it is where the function runs first."""
    device = "cpu" if device == "meta" else device
    return torch.autocast(
        device,
        dtype=torch.get_autocast_dtype(device),
        enabled=torch.is_autocast_enabled(device),
    )


class Segment(nn.Module):
    """Layers in a row of which the input is kept, and what chosen operations make.

    Without such operations by `checkpoint`, with them by PyTorch's own selective one, which stops
    to recompute after the last tensor that it needs.
    """

    def __init__(self, layers: Iterable[nn.Module], keep: Sequence[Any] = ()) -> None:
        """Take layers; ``keep`` names operations such as ``torch.ops.aten.mm.default``."""
        super().__init__()
        self.layers, self.keep = nn.Sequential(*layers), list(keep)

    def forward(self, x: Tensor) -> Tensor:
        """From (b, s, h) to (b, s, h)."""
        if not self.keep:
            return checkpoint(self.layers, x)
        contexts = partial(create_selective_checkpoint_contexts, self.keep)
        out: Tensor = torch_checkpoint(self.layers, x, use_reentrant=False, context_fn=contexts)
        return out


def in_segments(
    layers: Sequence[nn.Module], layers_per_segment: int = 1, keep: Sequence[Any] = ()
) -> nn.ModuleList:
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
        Segment(list(layers)[start : start + layers_per_segment], keep) for start in starts
    )
