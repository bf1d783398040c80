"""Attention of one head on a machine with slow and fast memory, in two orders, and its backward.

Each takes a machine with `load`, `store` and `full`, as `course_utils.instruments.TwoLevelMemory`,
its arrays in slow memory, and the queries and keys of a tile. Queries and results have the shape
(n, d), keys and values (m, d), the log-sum-exp (n,). Nothing is masked; scores are divided by the
root of d.

Sources: Dao et al., "FlashAttention" (2022), algorithms 0 and 4; Dao, "FlashAttention-2" (2023),
algorithms 1 and 2.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import torch


class Array(Protocol):
    """An array in slow memory."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Its sides."""

    def __getitem__(self, index: Any) -> "Array":
        """A part of it."""


class Memory(Protocol):
    """What a program needs of a machine."""

    def load(self, array: Any) -> Any:
        """Copy an array into fast memory."""

    def store(self, tile: Any, array: Any) -> None:
        """Copy a tile back."""

    def full(self, shape: tuple[int, ...], value: float) -> Any:
        """Make a tile in fast memory."""


def flash_forward(machine: Memory, arrays: Sequence[Array], block_q: int, block_k: int) -> None:
    """Attention that keeps a tile of queries and streams keys and values past it.

    Its arrays: q, k, v, out, lse.
    """
    q, k, v, out, lse = arrays
    scale, head_dim = q.shape[1] ** -0.5, q.shape[1]
    for here in _tiles(q, block_q):
        queries = machine.load(q[here])
        maximum = machine.full((len(queries), 1), -torch.inf)
        total, summed = (
            machine.full((len(queries), 1), 0.0),
            machine.full((len(queries), head_dim), 0.0),
        )
        for there in _tiles(k, block_k):
            scores = queries @ machine.load(k[there]).mT * scale
            higher = torch.maximum(maximum, scores.amax(1, keepdim=True))
            weights, shrink = torch.exp(scores - higher), torch.exp(maximum - higher)
            total = total * shrink + weights.sum(1, keepdim=True)
            summed = summed * shrink + weights @ machine.load(v[there])
            maximum = higher
            del scores, higher, weights, shrink
        machine.store(summed / total, out[here])
        machine.store((maximum + total.log())[:, 0], lse[here])
        del queries, maximum, total, summed


def materialised_forward(
    machine: Memory, arrays: Sequence[Array], block_q: int, block_k: int
) -> None:
    """Attention as three kernels: scores and weights (n, m) go through slow memory.

    Its arrays: q, k, v, scores, weights, out.
    """
    q, k, v, scores, weights, out = arrays
    scale = q.shape[1] ** -0.5
    for here in _tiles(q, block_q):
        queries = machine.load(q[here])
        for there in _tiles(k, block_k):
            machine.store(queries @ machine.load(k[there]).mT * scale, scores[here, there])
    for here in _tiles(q, block_q):
        machine.store(machine.load(scores[here]).softmax(1), weights[here])
    for here in _tiles(q, block_q):
        summed = machine.full((here.stop - here.start, q.shape[1]), 0.0)
        for there in _tiles(k, block_k):
            summed = summed + machine.load(weights[here, there]) @ machine.load(v[there])
        machine.store(summed, out[here])


def flash_backward(machine: Memory, arrays: Sequence[Array], block_q: int, block_k: int) -> None:
    """Gradients of queries, keys and values: keys outside, the queries' gradient to and fro.

    Its arrays: q, k, v, out, lse, the gradient of out, (n,) for the sums of ``grad * out``, and the
    gradients of q (zeros before), k and v.
    """
    q, k, v, out, lse, grad_out, delta, grad_q, grad_k, grad_v = arrays
    scale = q.shape[1] ** -0.5
    for here in _tiles(q, block_q):
        machine.store((machine.load(grad_out[here]) * machine.load(out[here])).sum(1), delta[here])
    for there in _tiles(k, block_k):
        keys, values = machine.load(k[there]), machine.load(v[there])
        of_keys, of_values = (machine.full(tuple(keys.shape), 0.0) for _ in range(2))
        for here in _tiles(q, block_q):
            queries, upstream = machine.load(q[here]), machine.load(grad_out[here])
            weights = torch.exp(queries @ keys.mT * scale - machine.load(lse[here])[:, None])
            of_values = of_values + weights.mT @ upstream
            of_scores = upstream @ values.mT - machine.load(delta[here])[:, None]
            of_scores = scale * weights * of_scores
            of_keys = of_keys + of_scores.mT @ queries
            machine.store(machine.load(grad_q[here]) + of_scores @ keys, grad_q[here])
        machine.store(of_keys, grad_k[there])
        machine.store(of_values, grad_v[there])


def _tiles(array: Array, block: int) -> Iterator[slice]:
    """Slices of so many rows; the last may be shorter."""
    num_rows = array.shape[0]
    for start in range(0, num_rows, block):
        yield slice(start, min(start + block, num_rows))
