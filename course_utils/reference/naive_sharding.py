"""Sharding as one writes it first: right numbers, at more time, more bytes or more memory.

`course_utils.reference.sharding` has each of them without the waste.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from course_utils.distributed.comm import Comm


def all_reduced_step(
    comm: Comm, weights: Tensor, gradient: Tensor, part: Tensor, optimizer: Optimizer
) -> None:
    """A sharded optimizer step after a whole all-reduce: half as much again goes over the links."""
    comm.all_reduce(gradient)
    part.grad = gradient.chunk(comm.size)[comm.rank].clone()
    optimizer.step()
    comm.all_gather(weights, part.detach())


class KeptLinear(torch.autograd.Function):
    """A sharded linear layer whose gathered weight autograd keeps until backward."""

    @staticmethod
    def forward(ctx: Any, comm: Comm, x: Tensor, part: Tensor, shape: tuple[int, int]) -> Tensor:
        """Gather and multiply.

        Args:
            ctx: Keeps input and whole weight.
            comm: The ranks that share the weight.
            x: (rows, in_features).
            part: This rank's part of the flat weight.
            shape: (out_features, in_features) of the weight.
        """
        whole = x.new_empty(shape)
        comm.all_gather(whole, part)
        ctx.save_for_backward(x, whole)
        ctx.comm, ctx.num_numbers = comm, part.numel()
        return x @ whole.T

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[None, Tensor, Tensor, None]:
        """Sum the weight's gradient over ranks and keep a part."""
        x, whole = ctx.saved_tensors
        of_part = x.new_empty(ctx.num_numbers)
        ctx.comm.reduce_scatter(of_part, upstream[0].T @ x)
        return None, upstream[0] @ whole, of_part, None


def waiting_step(
    comm: Comm,
    parts: Sequence[Tensor],
    uses: Sequence[int],
    compute: Callable[[int, Tensor], Tensor | None],
    gradients: Sequence[Tensor],
) -> None:
    """Gather each weight when it is needed, and wait: as `prefetched_step`, with nothing hidden."""
    for number, layer in enumerate(uses):
        whole = parts[layer].new_empty(comm.size * parts[layer].numel())
        comm.all_gather(whole, parts[layer])
        gradient = compute(number, whole)
        if gradient is not None:
            comm.reduce_scatter(gradients[layer], gradient)
