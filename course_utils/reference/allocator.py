"""Why does PyTorch reserve more GPU memory than it allocates? A small caching allocator.

It follows the rules of PyTorch's CUDA allocator, with default settings and one stream:

- sizes are rounded up to 512 B; up to 1 MiB they come from the small pool, else from the large;
- the smallest free block that fits is used; of equal ones, the one with the lowest address;
- if none fits, the device reserves a segment: 2 MiB for the small pool; for the large pool 20 MiB
  for sizes below 10 MiB, else the size rounded up to a multiple of 2 MiB;
- the rest of a block is split off: in the small pool from 512 B on, in the large above 1 MiB;
- a freed block is merged with its free neighbours and cached: segments without a block in use are
  released only when the device is full.

    >>> allocator = CachingAllocator()
    >>> allocator.allocate("logits", 3 * 2**20)
    >>> allocator.levels
    Levels(allocated_bytes=3145728, reserved_bytes=20971520, inactive_split_bytes=17825792)

Sources: PyTorch, c10/cuda/CUDACachingAllocator.cpp: `round_size`, `get_allocation_size`,
`should_split`, `get_free_block`, `try_merge_blocks`, `release_cached_blocks`; PyTorch
documentation, CUDA semantics, memory management.
"""

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

MIB = 2**20
MIN_BLOCK_BYTES = 512
SMALL_BYTES = MIB
SMALL_SEGMENT_BYTES = 2 * MIB
LARGE_SEGMENT_BYTES = 20 * MIB
MIN_LARGE_BYTES = 10 * MIB
ROUND_LARGE_BYTES = 2 * MIB


class Levels(NamedTuple):
    """Bytes that an allocator holds at one moment.

    Attributes:
        allocated_bytes: Blocks in use, with their sizes rounded up.
        reserved_bytes: All segments.
        inactive_split_bytes: Free blocks in segments that are partly in use: they cannot be
            released, and serve only requests that fit.
    """

    allocated_bytes: int
    reserved_bytes: int
    inactive_split_bytes: int


@dataclass(kw_only=True)
class Block:
    """A part of a segment, free or in use.

    Attributes:
        segment: First address of its segment.
        segment_bytes: Size of its segment.
    """

    address: int
    size_bytes: int
    segment: int
    segment_bytes: int
    is_free: bool = True

    @property
    def is_small(self) -> bool:
        """Whether it belongs to the small pool."""
        return self.segment_bytes == SMALL_SEGMENT_BYTES


def rounded_bytes(num_bytes: int) -> int:
    """Size of the block for a request: rounded up to a multiple of 512 B."""
    return MIN_BLOCK_BYTES * max(1, -(-num_bytes // MIN_BLOCK_BYTES))


def new_segment_bytes(size_bytes: int) -> int:
    """Size of the segment to reserve when no free block of ``size_bytes`` is found."""
    if size_bytes <= SMALL_BYTES:
        return SMALL_SEGMENT_BYTES
    if size_bytes < MIN_LARGE_BYTES:
        return LARGE_SEGMENT_BYTES
    return ROUND_LARGE_BYTES * -(-size_bytes // ROUND_LARGE_BYTES)


class Allocator:
    """Addresses for requests: a plain list of blocks, out of segments that a device places."""

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
            self.blocks.append(replace(block, address=block.address + size, size_bytes=rest))
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

    def empty_cache(self) -> None:
        """Let go of all segments without a block in use."""
        self.blocks = [
            each for each in self.blocks if each.size_bytes < each.segment_bytes or not each.is_free
        ]

    def _best_free(self, size: int) -> Block | None:
        is_small = size <= SMALL_BYTES
        pool = (each for each in self.blocks if each.is_free and each.size_bytes >= size)
        fitting = (each for each in pool if each.is_small == is_small)
        return min(fitting, key=lambda each: (each.size_bytes, each.address), default=None)

    def _new_segment(self, size: int) -> Block:
        wanted = new_segment_bytes(size)
        address = self.reserve(wanted)
        block = Block(address=address, size_bytes=wanted, segment=address, segment_bytes=wanted)
        self.blocks.append(block)
        return block


class CachingAllocator:
    """The same on a device of so many bytes: blocks have names, and levels are known."""

    def __init__(self, device_bytes: int | None = None) -> None:
        """Limit all segments to ``device_bytes``; without it there is no limit."""
        self.device_bytes = device_bytes
        self._allocator = Allocator(self._reserve)
        self._addresses: dict[Hashable, int] = {}
        self._next_address = 0

    @property
    def blocks(self) -> list[Block]:
        """All parts of all segments, in no order."""
        return self._allocator.blocks

    @property
    def levels(self) -> Levels:
        """What is allocated, reserved and inactive now."""
        free = [each for each in self.blocks if each.is_free]
        return Levels(
            sum(each.size_bytes for each in self.blocks if not each.is_free),
            sum(each.size_bytes for each in self.blocks),
            sum(each.size_bytes for each in free if each.size_bytes < each.segment_bytes),
        )

    def play_script(self, script: Iterable[int]) -> list[Levels]:
        """Serve requests in order; return the levels after each.

        Args:
            script: A positive number allocates that many bytes; -n frees the n-th allocation.

        Raises:
            MemoryError: If the device has no room for a segment.
            ValueError: If a block is freed that is not in use, or a number is zero.
        """
        levels, num_allocations = [], 0
        for request in script:
            if request > 0:
                num_allocations += 1
                self.allocate(num_allocations, request)
            else:
                self.free(-request)
            levels.append(self.levels)
        return levels

    def allocate(self, name: Hashable, num_bytes: int) -> None:
        """Use the best free block, or a new segment, and split off the rest.

        Raises:
            MemoryError: If the device has no room for a segment.
            ValueError: If the name is in use, or the number of bytes is not above zero.
        """
        if name in self._addresses:
            raise ValueError(f"{name!r} is allocated already: free it first, or use another name")
        if num_bytes <= 0:
            raise ValueError(f"{name!r}: the number of bytes must be above zero, got {num_bytes}")
        self._addresses[name] = self._allocator.allocate(num_bytes)

    def free(self, name: Hashable) -> None:
        """Return a block to its pool, merged with its free neighbours.

        Raises:
            ValueError: If no block of that name is in use.
        """
        if name not in self._addresses:
            raise ValueError(f"{name!r} is not allocated: it was freed before, or never was")
        self._allocator.free(self._addresses.pop(name))

    def empty_cache(self) -> None:
        """Release all segments without a block in use."""
        self._allocator.empty_cache()

    def _reserve(self, num_bytes: int) -> int:
        """Place a segment, once what is cached is released if there is no room for it."""
        if not self._has_room(num_bytes):
            self.empty_cache()
        if not self._has_room(num_bytes):
            raise MemoryError(self._out_of_memory_message(num_bytes))
        self._next_address += num_bytes
        return self._next_address - num_bytes

    def _has_room(self, num_bytes: int) -> bool:
        return (
            self.device_bytes is None or self.levels.reserved_bytes + num_bytes <= self.device_bytes
        )

    def _out_of_memory_message(self, segment_bytes: int) -> str:
        levels = self.levels
        return (
            f"tried to get {segment_bytes:,} bytes of a device with {self.device_bytes:,}: "
            f"{levels.allocated_bytes:,} are allocated and "
            f"{levels.reserved_bytes - levels.allocated_bytes:,} reserved beside them, in pieces "
            f"too small: allocate less, or free what is not needed"
        )
