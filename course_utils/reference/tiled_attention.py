"""Attention of one head on a machine with slow and fast memory: materialised, and in two orders.

Each takes a machine with `load`, `store` and `full`, as `course_utils.instruments.TwoLevelMemory`,
its arrays in slow memory, and the queries and keys of a tile. Queries and results have the shape
(n, d), keys and values (m, d), the log-sum-exp (n,). Nothing is masked; scores are divided by the
root of d.

Sources: Dao et al., "FlashAttention" (2022), algorithms 0 and 1; Dao, "FlashAttention-2" (2023),
algorithm 1.
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


def flash_forward_keys_outer(
    machine: Memory, arrays: Sequence[Array], block_q: int, block_k: int
) -> None:
    """The order of the first FlashAttention: results go to and fro for each tile of keys.

    Its arrays: q, k, v, out, lse.
    """
    q, k, v, out, lse = arrays
    scale = q.shape[1] ** -0.5
    for number, there in enumerate(_tiles(k, block_k)):
        keys, values = machine.load(k[there]), machine.load(v[there])
        for here in _tiles(q, block_q):
            scores = machine.load(q[here]) @ keys.mT * scale
            new_lse = scores.logsumexp(1)
            if number:
                old_lse = machine.load(lse[here])
                new_lse = torch.logaddexp(old_lse, new_lse)
                shrink = torch.exp(old_lse - new_lse)[:, None]
                summed = machine.load(out[here]) * shrink
                summed = summed + torch.exp(scores - new_lse[:, None]) @ values
            else:
                summed = torch.exp(scores - new_lse[:, None]) @ values
            machine.store(summed, out[here])
            machine.store(new_lse, lse[here])


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


def _tiles(array: Array, block: int) -> Iterator[slice]:
    """Slices of so many rows; the last may be shorter."""
    num_rows = array.shape[0]
    for start in range(0, num_rows, block):
        yield slice(start, min(start + block, num_rows))
