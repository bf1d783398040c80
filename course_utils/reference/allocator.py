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

from bisect import bisect_left, insort
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, Optional

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


@dataclass(kw_only=True, eq=False)
class Block:
    """A part of a segment, linked to its neighbours."""

    address: int
    size_bytes: int
    is_small: bool
    is_free: bool = True
    before: Optional["Block"] = None
    after: Optional["Block"] = None

    @property
    def is_split(self) -> bool:
        """Whether it is only a part of its segment."""
        return self.before is not None or self.after is not None

    @property
    def key(self) -> tuple[int, int]:
        """Sort key of a pool: size first, then address."""
        return (self.size_bytes, self.address)


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


class CachingAllocator:
    """Allocates named blocks, and caches freed ones in two pools sorted by size."""

    def __init__(self, device_bytes: int | None = None) -> None:
        """Limit all segments to ``device_bytes``; without it there is no limit."""
        self.device_bytes = device_bytes
        self._used: dict[Hashable, Block] = {}
        self._free: dict[bool, list[tuple[tuple[int, int], Block]]] = {True: [], False: []}
        self._next_address = 0
        self._allocated_bytes = self._reserved_bytes = 0

    @property
    def levels(self) -> Levels:
        """What is allocated, reserved and inactive now."""
        free = (block for pool in self._free.values() for _, block in pool)
        inactive = sum(block.size_bytes for block in free if block.is_split)
        return Levels(self._allocated_bytes, self._reserved_bytes, inactive)

    def play(self, requests: Iterable[tuple[Hashable, int | None]]) -> list[Levels]:
        """Serve requests in order; return the levels after each.

        Args:
            requests: A name with a number of bytes to allocate, or with None to free it.

        Raises:
            MemoryError: If the device has no room for a segment.
            ValueError: If a name is allocated twice, or freed while not in use.
        """
        levels = []
        for name, num_bytes in requests:
            if num_bytes is None:
                self.free(name)
            else:
                self.allocate(name, num_bytes)
            levels.append(self.levels)
        return levels

    def play_script(self, script: Iterable[int]) -> list[Levels]:
        """Serve requests that are whole numbers; return the levels after each.

        Args:
            script: A positive number allocates that many bytes; -n frees the n-th allocation.

        Raises:
            MemoryError: If the device has no room for a segment.
            ValueError: If a block is freed that is not in use, or a number is zero.
        """
        return self.play(_numbered(script))

    def allocate(self, name: Hashable, num_bytes: int) -> None:
        """Use the best free block, or a new segment, and split off the rest.

        Raises:
            MemoryError: If the device has no room for a segment.
            ValueError: If the name is in use, or the number of bytes is not above zero.
        """
        if name in self._used:
            raise ValueError(f"{name!r} is allocated already: free it first, or use another name")
        if num_bytes <= 0:
            raise ValueError(f"{name!r}: the number of bytes must be above zero, got {num_bytes}")
        size = rounded_bytes(num_bytes)
        block = self._best_free(size) or self._new_segment(size)
        self._split(block, size)
        block.is_free = False
        self._used[name] = block
        self._allocated_bytes += block.size_bytes

    def free(self, name: Hashable) -> None:
        """Return a block to its pool, merged with its free neighbours.

        Raises:
            ValueError: If no block of that name is in use.
        """
        if name not in self._used:
            raise ValueError(f"{name!r} is not allocated: it was freed before, or never was")
        block = self._used.pop(name)
        self._allocated_bytes -= block.size_bytes
        block.is_free = True
        if block.before is not None and block.before.is_free:
            block = self._merge(block.before, block)
        if block.after is not None and block.after.is_free:
            block = self._merge(block, block.after)
        self._insert(block)

    def empty_cache(self) -> None:
        """Release all segments without a block in use."""
        for pool in self._free.values():
            self._reserved_bytes -= sum(block.size_bytes for _, block in pool if not block.is_split)
            pool[:] = [entry for entry in pool if entry[1].is_split]

    def segments(self) -> list[list[Block]]:
        """All segments as lists of blocks, in the order of their addresses."""
        free = (block for pool in self._free.values() for _, block in pool)
        firsts = [block for block in (*free, *self._used.values()) if block.before is None]
        return [_blocks_from(first) for first in sorted(firsts, key=lambda block: block.address)]

    def _best_free(self, size: int) -> Block | None:
        pool = self._free[size <= SMALL_BYTES]
        at = bisect_left(pool, (size, 0), key=lambda entry: entry[0])
        return pool.pop(at)[1] if at < len(pool) else None

    def _new_segment(self, size: int) -> Block:
        segment_bytes = new_segment_bytes(size)
        if not self._has_room(segment_bytes):
            self.empty_cache()
        if not self._has_room(segment_bytes):
            raise MemoryError(self._out_of_memory_message(segment_bytes))
        block = Block(
            address=self._next_address, size_bytes=segment_bytes, is_small=size <= SMALL_BYTES
        )
        self._next_address += segment_bytes
        self._reserved_bytes += segment_bytes
        return block

    def _has_room(self, num_bytes: int) -> bool:
        return self.device_bytes is None or self._reserved_bytes + num_bytes <= self.device_bytes

    def _out_of_memory_message(self, segment_bytes: int) -> str:
        levels = self.levels
        return (
            f"tried to get {segment_bytes:,} bytes of a device with {self.device_bytes:,}: "
            f"{levels.allocated_bytes:,} are allocated and "
            f"{levels.reserved_bytes - levels.allocated_bytes:,} reserved beside them, in pieces "
            f"too small: allocate less, or free what is not needed"
        )

    def _split(self, block: Block, size: int) -> None:
        rest = block.size_bytes - size
        if rest < MIN_BLOCK_BYTES or (not block.is_small and rest <= SMALL_BYTES):
            return
        remainder = Block(
            address=block.address + size,
            size_bytes=rest,
            is_small=block.is_small,
            before=block,
            after=block.after,
        )
        if block.after is not None:
            block.after.before = remainder
        block.size_bytes, block.after = size, remainder
        self._insert(remainder)

    def _merge(self, first: Block, second: Block) -> Block:
        """Turn two neighbours into one block, which is in no pool yet."""
        for block in (first, second):
            self._remove(block)
        first.size_bytes += second.size_bytes
        first.after = second.after
        if first.after is not None:
            first.after.before = first
        return first

    def _insert(self, block: Block) -> None:
        insort(self._free[block.is_small], (block.key, block), key=lambda entry: entry[0])

    def _remove(self, block: Block) -> None:
        """Remove a block from its pool, if it is there."""
        pool = self._free[block.is_small]
        at = bisect_left(pool, block.key, key=lambda entry: entry[0])
        if at < len(pool) and pool[at][1] is block:
            del pool[at]


def _numbered(script: Iterable[int]) -> Iterator[tuple[int, int | None]]:
    """Requests named by the numbers of their allocations, from 1."""
    num_allocations = 0
    for request in script:
        if request > 0:
            num_allocations += 1
            yield num_allocations, request
        else:
            yield -request, None


def _blocks_from(first: Block) -> list[Block]:
    blocks = [first]
    while blocks[-1].after is not None:
        blocks.append(blocks[-1].after)
    return blocks
