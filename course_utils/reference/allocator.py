"""Why does PyTorch reserve more GPU memory than it allocates? A small caching allocator.

It follows the rules of PyTorch's for CUDA, with its first settings and one CUDA stream:

- sizes are rounded up to 512 B; up to 1 MiB they come from the small pool, else from the large;
- the smallest free block that fits is taken, and of equal ones that with the lowest address;
- where there is none, a segment is asked of the device: 2 MiB for the small pool; for the large one
  20 MiB below a size of 10 MiB, and from there on the size rounded up to 2 MiB;
- what is left of a block is split off, in the small pool from 512 B on, in the large above 1 MiB;
- a freed block is joined with its free neighbours and kept: only when the device is full, segments
  without a block in use go back to it.

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
    """What an allocator holds at one moment.

    Attributes:
        allocated_bytes: Of blocks in use, rounded up as they are.
        reserved_bytes: Of all segments.
        inactive_split_bytes: Of free blocks in segments of which a part is in use: they
            cannot go back to the device, and serve only what fits.
    """

    allocated_bytes: int
    reserved_bytes: int
    inactive_split_bytes: int


@dataclass(kw_only=True, eq=False)
class Block:
    """A piece of a segment, beside its neighbours in it."""

    address: int
    size_bytes: int
    is_small: bool
    is_free: bool = True
    before: Optional["Block"] = None
    after: Optional["Block"] = None

    @property
    def is_split(self) -> bool:
        """Whether it is less than its segment."""
        return self.before is not None or self.after is not None

    @property
    def key(self) -> tuple[int, int]:
        """By which a pool is in order: size first, then address."""
        return (self.size_bytes, self.address)


def rounded_bytes(num_bytes: int) -> int:
    """Bytes of the block that a request asks for: rounded up to 512 B."""
    return MIN_BLOCK_BYTES * max(1, -(-num_bytes // MIN_BLOCK_BYTES))


def new_segment_bytes(size_bytes: int) -> int:
    """Bytes that are asked of the device where no free block of ``size_bytes`` is found."""
    if size_bytes <= SMALL_BYTES:
        return SMALL_SEGMENT_BYTES
    if size_bytes < MIN_LARGE_BYTES:
        return LARGE_SEGMENT_BYTES
    return ROUND_LARGE_BYTES * -(-size_bytes // ROUND_LARGE_BYTES)


class CachingAllocator:
    """Blocks in use by the names they were asked for with, free blocks by size."""

    def __init__(self, device_bytes: int | None = None) -> None:
        """A device with so many bytes for segments; without a number there is no end."""
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
        """Serve requests in order, and give the levels after each.

        Args:
            requests: A name with a number of bytes to allocate, or with None to free.

        Raises:
            MemoryError: If the device has no room for a segment.
            ValueError: If a name is allocated twice, or freed and not in use.
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
        """Serve requests that are whole numbers, and give the levels after each.

        Args:
            script: A number above zero asks for so many bytes; -n frees the n-th block that was
                asked for.

        Raises:
            MemoryError: If the device has no room for a segment.
            ValueError: If a block is freed that is not in use, or a number is zero.
        """
        return self.play(_named(script))

    def allocate(self, name: Hashable, num_bytes: int) -> None:
        """Take the best free block, or a new segment, and split off what is not needed.

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
        """Give a block back to its pool, joined with its free neighbours.

        Raises:
            ValueError: If nothing of that name is in use.
        """
        if name not in self._used:
            raise ValueError(f"{name!r} is not allocated: it was freed before, or never was")
        block = self._used.pop(name)
        self._allocated_bytes -= block.size_bytes
        block.is_free = True
        if block.before is not None and block.before.is_free:
            block = self._join(block.before, block)
        if block.after is not None and block.after.is_free:
            block = self._join(block, block.after)
        self._put(block)

    def empty_cache(self) -> None:
        """Give segments without a block in use back to the device."""
        for pool in self._free.values():
            self._reserved_bytes -= sum(block.size_bytes for _, block in pool if not block.is_split)
            pool[:] = [entry for entry in pool if entry[1].is_split]

    def segments(self) -> list[list[Block]]:
        """All segments as rows of blocks, in the order of their addresses."""
        free = (block for pool in self._free.values() for _, block in pool)
        firsts = [block for block in (*free, *self._used.values()) if block.before is None]
        return [_row(first) for first in sorted(firsts, key=lambda block: block.address)]

    def _best_free(self, size: int) -> Block | None:
        pool = self._free[size <= SMALL_BYTES]
        at = bisect_left(pool, (size, 0), key=lambda entry: entry[0])
        return pool.pop(at)[1] if at < len(pool) else None

    def _new_segment(self, size: int) -> Block:
        wanted = new_segment_bytes(size)
        if not self._has_room(wanted):
            self.empty_cache()
        if not self._has_room(wanted):
            raise MemoryError(self._out_of_memory(wanted))
        block = Block(address=self._next_address, size_bytes=wanted, is_small=size <= SMALL_BYTES)
        self._next_address += wanted
        self._reserved_bytes += wanted
        return block

    def _has_room(self, wanted: int) -> bool:
        return self.device_bytes is None or self._reserved_bytes + wanted <= self.device_bytes

    def _out_of_memory(self, wanted: int) -> str:
        levels = self.levels
        return (
            f"tried to get {wanted:,} bytes of a device with {self.device_bytes:,}: "
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
        self._put(remainder)

    def _join(self, first: Block, second: Block) -> Block:
        """One block of two neighbours; whichever lies in its pool is taken out."""
        for block in (first, second):
            self._take(block)
        first.size_bytes += second.size_bytes
        first.after = second.after
        if first.after is not None:
            first.after.before = first
        return first

    def _put(self, block: Block) -> None:
        insort(self._free[block.is_small], (block.key, block), key=lambda entry: entry[0])

    def _take(self, block: Block) -> None:
        pool = self._free[block.is_small]
        at = bisect_left(pool, block.key, key=lambda entry: entry[0])
        if at < len(pool) and pool[at][1] is block:
            del pool[at]


def _named(script: Iterable[int]) -> Iterator[tuple[int, int | None]]:
    """Requests under the numbers of their blocks."""
    number = 0
    for request in script:
        if request > 0:
            number += 1
            yield number, request
        else:
            yield -request, None


def _row(first: Block) -> list[Block]:
    row = [first]
    while row[-1].after is not None:
        row.append(row[-1].after)
    return row
