"""Training with a sharded state: each of d ranks keeps a d-th of what data parallelism repeats.

A tensor of N numbers is flattened, padded to a multiple of d, and cut into equal parts.

    >>> sharded = FlatShard(comm, list(model.parameters()))
    >>> y = ShardedLinear.apply(comm, x, part, (out_features, in_features))

Sources: Rajbhandari et al. 2020, ZeRO, section 5; Zhao et al. 2023, PyTorch FSDP, section 3.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad
from torch.optim import Optimizer

from course_utils.distributed.comm import Comm, Handle


class FlatShard:
    """This rank's part of some tensors, one after the other.

    Attributes:
        part: The ``ceil(n / d)`` numbers that this rank keeps.
    """

    def __init__(self, comm: Comm, tensors: Sequence[Tensor]) -> None:
        """Keep this rank's part, and forget the rest."""
        self._comm, self._shapes = comm, [each.shape for each in tensors]
        flat = torch.cat([each.flatten() for each in tensors])
        padded = pad(flat, (0, -len(flat) % comm.size))
        self.part = padded.chunk(comm.size)[comm.rank].clone()

    def whole(self) -> list[Tensor]:
        """All tensors in their shapes, from the parts of all ranks: one gather."""
        flat = gathered(self._comm, self.part)
        sizes = [shape.numel() for shape in self._shapes]
        pieces = flat[: sum(sizes)].split(sizes)
        return [piece.view(shape) for piece, shape in zip(pieces, self._shapes, strict=True)]


def gathered(comm: Comm, part: Tensor) -> Tensor:
    """The flat whole, from the parts of all ranks."""
    flat = part.new_empty(comm.size * part.numel())
    comm.all_gather(flat, part)
    return flat


def sharded_step(
    comm: Comm, weights: Tensor, gradient: Tensor, part: Tensor, optimizer: Optimizer
) -> None:
    """One optimizer step, each rank on its part: the volume and time of one all-reduce.

    Args:
        comm: The ranks that share the optimizer's state.
        weights: All, flat and padded; new ones afterwards.
        gradient: Of all weights, this rank's share of the sum.
        part: This rank's weights, which the optimizer updates.
        optimizer: Of this rank's part.
    """
    part.grad = torch.empty_like(part)
    comm.reduce_scatter(part.grad, gradient)
    optimizer.step()
    comm.all_gather(weights, part.detach())


class ShardedLinear(torch.autograd.Function):
    """A linear layer that has its whole weight only while it multiplies."""

    @staticmethod
    def forward(ctx: Any, comm: Comm, x: Tensor, part: Tensor, shape: tuple[int, int]) -> Tensor:
        """Gather, multiply, forget.

        Args:
            ctx: Keeps input and part.
            comm: The ranks that share the weight.
            x: (rows, in_features).
            part: This rank's part of the flat weight.
            shape: (out_features, in_features) of the weight.
        """
        ctx.save_for_backward(x, part)
        ctx.comm, ctx.shape = comm, shape
        return x @ gathered(comm, part).view(shape).T

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[None, Tensor, Tensor, None]:
        """Gather again for the input's gradient; sum the weight's gradient and keep a part."""
        x, part = ctx.saved_tensors
        (of_y,) = upstream
        of_x = of_y @ gathered(ctx.comm, part).view(ctx.shape)
        of_part = torch.empty_like(part)
        ctx.comm.reduce_scatter(of_part, of_y.T @ x)
        return None, of_x, of_part, None


def prefetched_step(
    comm: Comm,
    parts: Sequence[Tensor],
    uses: Sequence[int],
    compute: Callable[[int, Tensor], Tensor | None],
    gradients: Sequence[Tensor],
) -> None:
    """Gather the weight of the next use while this one is computed; scatter behind the next one.

    At most two whole weights and two whole gradients are there at once.

    Args:
        comm: The ranks that share the weights.
        parts: This rank's part of each layer.
        uses: Numbers of layers in the order in which they are needed.
        compute: From the number of a use and the flat whole weight to its flat gradient, if the
            use is one of the backward pass.
        gradients: Filled with this rank's part of the summed gradient of each layer.
    """

    def ask(layer: int) -> tuple[Handle, Tensor]:
        flat = parts[layer].new_empty(comm.size * parts[layer].numel())
        return comm.all_gather(flat, parts[layer], async_op=True), flat

    coming, scatter = ask(uses[0]), None
    for number, layer in enumerate(uses):
        handle, weight = coming
        handle.wait()
        if number + 1 < len(uses):
            coming = ask(uses[number + 1])
        gradient = compute(number, weight)
        del weight
        if scatter is not None:
            scatter.wait()
            scatter = None
        if gradient is not None:
            scatter = comm.reduce_scatter(gradients[layer], gradient, async_op=True)
    if scatter is not None:
        scatter.wait()


def hybrid_sum(comm: Comm, gradient: Tensor, node_size: int) -> Tensor:
    """This rank's part of the summed gradient, if each node of so many ranks shares one copy.

    Between nodes travels a part of the gradient alone.
    """
    node = comm.split(comm.rank // node_size)
    across = comm.split(comm.rank % node_size)
    part = gradient.new_empty(gradient.numel() // node_size)
    node.reduce_scatter(part, gradient)
    across.all_reduce(part)
    return part


def clip_sharded(comm: Comm, gradients: Sequence[Tensor], max_norm: float) -> Tensor:
    """Scale this rank's parts, in place, so that the norm of all is at most ``max_norm``.

    Returns:
        The norm before, the same on every rank.
    """
    total = torch.stack([each.double().square().sum() for each in gradients]).sum()
    comm.all_reduce(total)
    norm = total.sqrt()
    for each in gradients:
        each.mul_(torch.clamp(max_norm / norm, max=1.0))
    return norm
