"""How long does each kind of work take, if rates were measured by shape and size?

A shape that was not measured has the rate of the nearest one; one shape alone is a rate for all.

    >>> nearest({(8, 8): 100.0, (8, 64): 200.0}, (8, 30))
    200.0
"""

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

NODE = 8  # devices
ROLES = ("forward", "grad_input", "grad_weight")

Shape = tuple[int, ...]
Table = Mapping[Shape, float]


@dataclass(frozen=True)
class Group:
    """Ranks that send to each other.

    Attributes:
        num_ranks: How many.
        stride: Devices from one of them to the next.
    """

    num_ranks: int
    stride: int = 1

    @property
    def num_nodes(self) -> int:
        """Nodes that it spans; the last may be in part."""
        return -(-self.num_ranks * self.stride // NODE)


Links = Callable[[str, float, Group], float]
"""Seconds of a collective, or of ``p2p``, of so many bytes in a group."""


def nearest(measured: Table, shape: Shape) -> float:
    """The rate of the shape with the least sum of ratios, in logarithms."""
    return measured[shape if shape in measured else _nearest_shape(tuple(measured), shape)]


@functools.lru_cache(maxsize=2**16)
def _nearest_shape(measured: Sequence[Shape], shape: Shape) -> Shape:
    return min(measured, key=lambda each: _distance(each, shape))


def _distance(one: Shape, other: Shape) -> float:
    return math.fsum(abs(math.log(a / b)) for a, b in zip(one, other, strict=True))


def ring_share(name: str, num_ranks: int) -> float:
    """How often each device of a ring sends the whole message: less than once, or twice."""
    return (2 if name == "all_reduce" else 1) * (num_ranks - 1) / num_ranks


@dataclass(frozen=True, kw_only=True)
class Rates:
    """What devices and links reach.

    Attributes:
        products: FLOP/s by m, k and n, for each of `ROLES`.
        forward: FLOP/s of attention's forward pass by length and heads, the square in full.
        backward: The same of its backward pass, which takes 2.5 times as many.
        memory_bytes_per_second: That kernels reach.
        kernel_seconds: Of a kernel, however little it moves.
        links: What carries messages.
    """

    products: Mapping[str, Table]
    forward: Table
    backward: Table
    memory_bytes_per_second: float
    kernel_seconds: float
    links: Links

    def linear(self, num_tokens: int, inner: int, outer: int, num_forward: int = 1) -> float:
        """Seconds of a product, run so often, and of the gradients of its input and its weight."""
        shapes = (num_tokens, inner, outer), (num_tokens, outer, inner), (outer, num_tokens, inner)
        forward, *backward = (
            1 / nearest(self.products[role], shape)
            for role, shape in zip(ROLES, shapes, strict=True)
        )
        return 2 * num_tokens * inner * outer * math.fsum([num_forward * forward, *backward])

    def attention(
        self, num_sequences: int, seq_len: int, num_heads: int, head_dim: int, num_forward: int = 1
    ) -> float:
        """Seconds of causal attention, forward so often and backward."""
        flops = 4 * num_sequences * seq_len**2 * num_heads * head_dim
        forward, backward = (
            nearest(table, (seq_len, num_heads)) for table in (self.forward, self.backward)
        )
        return num_forward * flops / forward + 2.5 * flops / backward

    def moving(self, num_bytes: float, num_kernels: int = 0) -> float:
        """Seconds of kernels that only move bytes."""
        return num_bytes / self.memory_bytes_per_second + num_kernels * self.kernel_seconds

    def collective(self, name: str, num_bytes: float, group: Group) -> float:
        """Seconds of ``all_reduce``, ``all_gather`` or ``reduce_scatter``."""
        return self.links(name, num_bytes, group) if group.num_ranks > 1 else 0.0

    def to_next_stage(self, num_bytes: float, stride: int) -> float:
        """Seconds of a message to the next stage, so many devices away."""
        return self.links("p2p", num_bytes, Group(2, stride))
