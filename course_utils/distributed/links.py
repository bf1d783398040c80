"""How long does a message take? A model of the links between devices, not a measurement.

Each link costs a latency per message and a time per byte. The slowest link of a group sets the
cost: one between nodes as soon as the group spans two. With n ranks, S bytes, latency L and
bandwidth B:

    ring  all-reduce                    2 (n-1) L + 2 (n-1)/n S/B
          all-gather, reduce-scatter      (n-1) L +   (n-1)/n S/B
          broadcast, pipelined            (n-1) L +           S/B
    one message                                 L +           S/B

    >>> network = Network(inside=Link(latency_seconds=1e-5, bandwidth_bytes_per_second=200e9))
    >>> network.seconds("all_reduce", 1_000_000_000, ranks=range(8))
    0.00889

Not modelled: other messages on the same link, and the device's work while it sends.

Source: Thakur, Rabenseifner and Gropp 2005, Optimization of Collective Communication Operations in
MPICH, section 4.
"""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Link:
    """A connection from one device to the next.

    Attributes:
        latency_seconds: Time of an empty message.
        bandwidth_bytes_per_second: In each direction, with both in use.
    """

    latency_seconds: float
    bandwidth_bytes_per_second: float

    def __post_init__(self) -> None:
        """Refuse a negative latency and a bandwidth that is not above zero."""
        if not self.latency_seconds >= 0:
            raise ValueError(
                f"Link: latency_seconds must be zero or above, got {self.latency_seconds!r}"
            )
        if not self.bandwidth_bytes_per_second > 0:
            raise ValueError(
                f"Link: bandwidth_bytes_per_second must be above zero, "
                f"got {self.bandwidth_bytes_per_second!r}"
            )


@dataclass(frozen=True, kw_only=True)
class Network:
    """Links of one or two tiers, which collectives use as rings.

    Attributes:
        inside: Link between two devices of a node.
        between: Link of a ring between two nodes; without it, all devices are one node.
        devices_per_node: This many consecutive ranks form a node.
    """

    inside: Link
    between: Link | None = None
    devices_per_node: int | None = None

    def __post_init__(self) -> None:
        """Refuse nodes without links between them."""
        if (self.between is None) != (self.devices_per_node is None):
            raise ValueError("Network: two tiers need both `between` and `devices_per_node`")
        if self.devices_per_node is not None and self.devices_per_node < 1:
            raise ValueError(
                f"Network: devices_per_node must be above zero, got {self.devices_per_node!r}"
            )

    def link(self, ranks: Iterable[int]) -> Link:
        """The slowest link between these ranks."""
        if self.between is None or self.devices_per_node is None:
            return self.inside
        nodes = {rank // self.devices_per_node for rank in ranks}
        return self.inside if len(nodes) == 1 else self.between

    def seconds(self, kind: str, num_bytes: int, ranks: Iterable[int]) -> float:
        """Seconds of one call, from the moment at which all ranks have called.

        Args:
            kind: Name of the `Comm` method.
            num_bytes: Of the whole: what is reduced, gathered or sent.
            ranks: All that take part.
        """
        members = tuple(ranks)
        link = self.link(members)
        messages, volumes = self._messages_and_volumes(kind, len(members))
        return (
            messages * link.latency_seconds + volumes * num_bytes / link.bandwidth_bytes_per_second
        )

    def _messages_and_volumes(self, kind: str, num_ranks: int) -> tuple[int, float]:
        """Number of messages in sequence, and how many times the bytes pass a link."""
        n = num_ranks
        if n == 1 or kind == "split":
            return 0, 0.0
        if kind in ("send", "receive"):
            return 1, 1.0
        if kind in ("all_gather", "reduce_scatter"):
            return n - 1, (n - 1) / n
        return (n - 1, 1.0) if kind == "broadcast" else (2 * (n - 1), 2 * (n - 1) / n)
