"""One layer on several ranks: which part of each weight a rank has, and what ranks tell each other.

Tensor parallelism cuts the first product of a block by columns of its result and the last one by
rows of its input; f and g stand where a block begins and ends. Sequence parallelism replaces them
by a gather and a scatter of tokens, so that what lies between blocks is on one rank only.

Weights are (rows, columns) as in `torch.nn.Linear`: ``x @ weight.T``.

Sources: Shoeybi et al., "Megatron-LM" (2019), section 3; Korthikanti et al., "Reducing Activation
Recomputation in Large Transformer Models" (2022), section 4.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from course_utils.distributed.comm import Comm
from course_utils.reference.attention import attend

Operation = Callable[[Tensor], Tensor]
Weights = Mapping[str, Tensor]
REPLICATED = ("norm1", "norm2", "o_bias", "down_bias")


def f_and_g(comm: Comm) -> tuple[Operation, Operation]:
    """f copies, and sums gradients over ranks; g sums over ranks, and copies gradients."""

    def copied(x: Tensor) -> Tensor:
        return x.view_as(x)

    def summed(x: Tensor) -> Tensor:
        total = x.clone(memory_format=torch.contiguous_format)
        comm.all_reduce(total)
        return total

    return _operation(copied, summed), _operation(summed, copied)


def gather_and_scatter(comm: Comm) -> tuple[Operation, Operation]:
    """Gather gives all tokens, scatter sums over ranks and gives this rank's; gradients go back."""

    def gathered(shard: Tensor) -> Tensor:
        whole = shard.new_empty(comm.size * shard.shape[0], *shard.shape[1:])
        comm.all_gather(whole, shard.contiguous())
        return whole

    def scattered(x: Tensor) -> Tensor:
        part = x.new_empty(x.shape[0] // comm.size, *x.shape[1:])
        comm.reduce_scatter(part, x.contiguous())
        return part

    return _operation(gathered, scattered), _operation(scattered, gathered)


def _operation(there: Operation, back: Operation) -> Operation:
    """A function for autograd, of what happens to a tensor and what to its gradient."""

    class Operate(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return there(x)

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Tensor:
            return back(gradient)

    return Operate.apply


def parallel_mlp(comm: Comm, f: Operation, g: Operation, x: Tensor, w: Weights) -> Tensor:
    """A gated MLP on this rank's hidden units: ``down(silu(gate x) * up x) + bias``.

    Args:
        comm: The ranks that share it.
        f: What stands where a block begins.
        g: What stands where it ends.
        x: Tokens, (tokens, h).
        w: Whole weights: "gate" and "up" (f, h), "down" (h, f), "bias" (h,).
    """
    gate, up = (w[name].tensor_split(comm.size)[comm.rank] for name in ("gate", "up"))
    down = w["down"].tensor_split(comm.size, dim=1)[comm.rank]
    entered = f(x)
    hidden = F.silu(entered @ gate.T) * (entered @ up.T)
    return g(hidden @ down.T) + w["bias"]


def parallel_attention(  # noqa: PLR0913, PLR0917  as the exercise has it
    comm: Comm, f: Operation, g: Operation, x: Tensor, w: Weights, head_dim: int
) -> Tensor:
    """Causal attention with this rank's heads, whose keys and values may be shared by a group.

    Args:
        comm: The ranks that share it; their number divides that of key-value heads.
        f: What stands where a block begins.
        g: What stands where it ends.
        x: Tokens of one sequence, (tokens, h).
        w: Whole weights: "q" (a d, h), "k" and "v" (a_kv d, h), "o" (h, a d).
        head_dim: Numbers d of a head.
    """
    entered = f(x)
    heads = (
        (entered @ w[name].chunk(comm.size)[comm.rank].T).unflatten(-1, (-1, head_dim))
        for name in ("q", "k", "v")
    )
    out = attend(*(each[None] for each in heads))[0]
    return g(out @ w["o"].chunk(comm.size, dim=1)[comm.rank].T)


def gathered_product(comm: Comm, shard: Tensor, weight: Tensor) -> Tensor:
    """All tokens times a weight, of which only this rank's tokens are kept for backward.

    They are gathered again for the gradient of the weight, while that of the tokens is computed.
    """

    def ask_for_all(shard: Tensor) -> tuple[Tensor, Any]:
        whole = shard.new_empty(comm.size * len(shard), shard.shape[1])
        return whole, comm.all_gather(whole, shard, async_op=True)

    class GatheredProduct(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, shard: Tensor, weight: Tensor) -> Tensor:
            ctx.save_for_backward(shard, weight)
            whole, gather = ask_for_all(shard)
            gather.wait()
            return whole @ weight.T

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
            shard, weight = ctx.saved_tensors
            whole, gather = ask_for_all(shard)
            of_whole, of_shard = gradient @ weight, torch.empty_like(shard)
            scatter = comm.reduce_scatter(of_shard, of_whole, async_op=True)
            gather.wait()
            of_weight = gradient.T @ whole
            scatter.wait()
            return of_shard, of_weight

    product: Tensor = GatheredProduct.apply(shard, weight)  # type: ignore[no-untyped-call]
    return product


def sum_replicated_gradients(comm: Comm, parameters: Weights) -> None:
    """Sum, over ranks, the gradients of what all ranks hold whole and use on their own tokens.

    Args:
        comm: The ranks of a layer under sequence parallelism.
        parameters: By name; those of norms, and biases that are added after a scatter, are whole.
    """
    whole = (parameters[name] for name in REPLICATED if name in parameters)
    for gradient in (each.grad for each in whole):
        if gradient is not None:
            comm.all_reduce(gradient)
