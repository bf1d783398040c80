"""Drive an allocator from outside: a device that gives it segments, and a script of requests.

A script is a list of whole numbers: a positive number allocates that many bytes, and -n frees the
n-th allocation.
"""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

MIB = 2**20
DIRECTIONS = ("upwards", "downwards", "scattered")


class Device:
    """Reserves segments, adjacent or not, and counts their bytes."""

    def __init__(self, direction: str) -> None:
        """Place the next segments in one of `DIRECTIONS`."""
        self.direction, self.reserved_bytes = direction, 0
        self.start = 2**40 if direction == "downwards" else 0

    def reserve(self, num_bytes: int) -> int:
        """Reserve a segment and return its address."""
        self.reserved_bytes += num_bytes
        if self.direction == "downwards":
            self.start -= num_bytes
            return self.start
        address = self.start
        self.start += num_bytes
        if self.direction == "scattered":  # gaps, and jumps far up: no two segments are adjacent
            address += 2**40 * (self.start // MIB % 4)
            self.start += 2 * MIB
        return address


class Served(NamedTuple):
    """Visible result of one request: its address (0 when freeing) and all reserved bytes."""

    address: int
    reserved_bytes: int


def serve(allocator: Any, device: Device, script: Iterable[int]) -> Iterator[Served]:
    """Send a script's requests to an allocator, one at a time."""
    addresses: list[int] = []
    for request in script:
        if request > 0:
            addresses.append(allocator.allocate(request))
            yield Served(addresses[-1], device.reserved_bytes)
        else:
            allocator.free(addresses[-request - 1])
            yield Served(0, device.reserved_bytes)
