"""Where do the keys and values of a new token go, if a cache is cut into blocks?

The tables of a paged cache: which blocks hold the tokens of a sequence, in order. It owns no
memory; who uses it writes keys and values into the cells that it names, and copies what it asks for
in ``copies``.

    >>> cache = PagedCache(num_blocks=4, block_size=2)
    >>> cache.append("a"), cache.append("a"), cache.append("a")
    ((3, 0), (3, 1), (2, 0))
    >>> cache.fork("a", "b")
    >>> cache.append("b"), cache.copies
    ((1, 1), [(2, 1, 1)])

Source: Kwon et al. 2023, Efficient Memory Management for Large Language Model Serving with
PagedAttention, section 4.
"""


class PagedCache:
    """Tables of sequences that share blocks until one of them writes.

    Attributes:
        copies: What has to be copied before the next token is written: from one block to another,
            so many of its first cells. Whoever has done it empties the list.
    """

    def __init__(self, num_blocks: int, block_size: int) -> None:
        self.copies: list[tuple[int, int, int]] = []
        self._block_size = block_size
        self._free = list(range(num_blocks))
        self._owners = [0] * num_blocks
        self._tables: dict[object, list[int]] = {}
        self._lengths: dict[object, int] = {}

    def append(self, sequence: object) -> tuple[int, int]:
        """Block and cell of the next token of a sequence, which need not be known yet.

        Raises:
            MemoryError: If it takes a block and none is free; nothing has changed then.
        """
        length, table = self._lengths.get(sequence, 0), self._tables.get(sequence, [])
        cell = length % self._block_size
        if cell == 0:
            table.append(self._take())
        elif self._owners[table[-1]] > 1:
            block = self._take()
            self.copies.append((table[-1], block, cell))
            self._owners[table[-1]] -= 1
            table[-1] = block
        self._tables[sequence], self._lengths[sequence] = table, length + 1
        return table[-1], cell

    def table(self, sequence: object) -> list[int]:
        """Blocks of a sequence, in the order of its tokens."""
        return list(self._tables[sequence])

    def fork(self, sequence: object, child: object) -> None:
        """Begin a sequence that has all tokens of another one, in the same blocks."""
        self._tables[child], self._lengths[child] = self.table(sequence), self._lengths[sequence]
        for block in self._tables[child]:
            self._owners[block] += 1

    def free(self, sequence: object) -> None:
        """End a sequence; its blocks are free where nobody shares them."""
        for block in self._tables.pop(sequence):
            self._owners[block] -= 1
            if not self._owners[block]:
                self._free.append(block)
        del self._lengths[sequence]

    def _take(self) -> int:
        if not self._free:
            raise MemoryError("no block is free: free a sequence, or append later")
        block = self._free.pop()
        self._owners[block] = 1
        return block
