"""Which address does a caching allocator give to a request? One that searches a plain list.

The rules are those of `allocator`; here a device places the segments, and blocks have addresses.

    >>> device = Device("upwards")
    >>> allocator = Allocator(device.reserve)
    >>> [allocator.allocate(1), allocator.allocate(600), device.reserved_bytes]
    [0, 512, 2097152]

Sources: as for `allocator`.
"""

from collections.abc import Callable
from dataclasses import dataclass

from course_utils.reference.allocator import (
    MIN_BLOCK_BYTES,
    SMALL_BYTES,
    new_segment_bytes,
    rounded_bytes,
)


@dataclass(kw_only=True)
class Block:
    """A part of a segment, free or in use.

    Attributes:
        segment: First address of its segment.
    """

    address: int
    size_bytes: int
    segment: int
    is_small: bool
    is_free: bool = True


class Allocator:
    """Blocks for requests, out of segments that are kept."""

    def __init__(self, reserve: Callable[[int], int]) -> None:
        """Take the function that reserves a segment and returns its address."""
        self.reserve = reserve
        self.blocks: list[Block] = []

    def allocate(self, num_bytes: int) -> int:
        """Address of a block of at least that many bytes."""
        size = rounded_bytes(num_bytes)
        block = self._best_free(size) or self._new_segment(size)
        rest = block.size_bytes - size
        if rest >= (MIN_BLOCK_BYTES if block.is_small else SMALL_BYTES + 1):
            block.size_bytes = size
            self._add(block.address + size, rest, block.segment, block.is_small)
        block.is_free = False
        return block.address

    def free(self, address: int) -> None:
        """Take a block back and join it with its free neighbours."""
        block = next(each for each in self.blocks if each.address == address)
        block.is_free = True
        near = [each for each in self.blocks if each.is_free and each.segment == block.segment]
        for first in sorted(near, key=lambda each: -each.address):
            behind = first.address + first.size_bytes
            for second in [each for each in near if each.address == behind]:
                first.size_bytes += second.size_bytes
                self.blocks.remove(second)

    def _best_free(self, size: int) -> Block | None:
        is_small = size <= SMALL_BYTES
        pool = (each for each in self.blocks if each.is_free and each.is_small == is_small)
        fitting = (each for each in pool if each.size_bytes >= size)
        return min(fitting, key=lambda each: (each.size_bytes, each.address), default=None)

    def _new_segment(self, size: int) -> Block:
        wanted = new_segment_bytes(size)
        address = self.reserve(wanted)
        return self._add(address, wanted, address, size <= SMALL_BYTES)

    def _add(self, address: int, size: int, segment: int, is_small: bool) -> Block:
        block = Block(address=address, size_bytes=size, segment=segment, is_small=is_small)
        self.blocks.append(block)
        return block
