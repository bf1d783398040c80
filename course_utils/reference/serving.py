"""What can be seen of an allocator from outside? A device that gives it segments, and requests.

A script of requests is a list of whole numbers: one above zero asks for so many bytes, and -n frees
the n-th block that was asked for.
"""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

MIB = 2**20
DIRECTIONS = ("upwards", "downwards", "scattered")


class Device:
    """Gives segments, one beside the other or not, and counts their bytes."""

    def __init__(self, direction: str) -> None:
        """One of `DIRECTIONS`: where the next segment lies."""
        self.direction, self.reserved_bytes, self.end = direction, 0, 2**40
        self.start = 0 if direction != "downwards" else self.end

    def reserve(self, num_bytes: int) -> int:
        """Address of a new segment."""
        self.reserved_bytes += num_bytes
        if self.direction == "downwards":
            self.start -= num_bytes
            return self.start
        address = self.start
        self.start += num_bytes
        if self.direction == "scattered":  # every other one far up, so that none has a neighbour
            address += 2**40 * (self.start // MIB % 4)
            self.start += 2 * MIB
        return address


class Served(NamedTuple):
    """What can be seen of one request: its address, 0 where a block is freed; what is reserved."""

    address: int
    reserved_bytes: int


def serve(allocator: Any, device: Device, script: Iterable[int]) -> Iterator[Served]:
    """Hand a script's requests to an allocator, one at a time."""
    addresses: list[int] = []
    for request in script:
        if request > 0:
            addresses.append(allocator.allocate(request))
            yield Served(addresses[-1], device.reserved_bytes)
        else:
            allocator.free(addresses[-request - 1])
            yield Served(0, device.reserved_bytes)
