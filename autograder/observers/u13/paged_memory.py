"""The memory that a paged cache is about, and what every request should have done to it.

The judge owns the memory: it writes each token itself, makes the copies that were asked for, and
reads every sequence back through its table. What a table may hold follows from the tokens alone:
equal beginnings of a block, which are the same tokens, may lie in one block.
"""

from typing import Any

Tokens = dict[str, list[int]]


class Memory:
    """Cells in blocks, each with the token that was written last."""

    def __init__(self, num_blocks: int, block_size: int) -> None:
        self.block_size = block_size
        self.cells: list[list[int | None]] = [[None] * block_size for _ in range(num_blocks)]

    def has(self, block: int, cell: int = 0) -> bool:
        """Whether there is such a cell."""
        return 0 <= block < len(self.cells) and 0 <= cell < self.block_size

    def copy(self, source: int, target: int, num_cells: int) -> None:
        """Copy the first cells of a block."""
        self.cells[target][:num_cells] = self.cells[source][:num_cells]

    def read(self, table: list[int], num_tokens: int) -> list[int | None]:
        """The tokens of a sequence."""
        size = self.block_size
        return [self.cells[table[n // size]][n % size] for n in range(num_tokens)]

    def needed(self, tokens: Tokens) -> int:
        """Blocks that hold these sequences where all that can be shared is."""
        size = self.block_size
        parts = (
            tuple(each[n : n + size]) for each in tokens.values() for n in range(0, len(each), size)
        )
        return len(set(parts))


def first_wrong(
    memory: Memory, script: list[list[str]], log: list[dict[str, Any]]
) -> tuple[int, str]:
    """The number of the first request that is not served right, from 1, and what is wrong with it.

    The log ends with a request that raised what it should not. If all are right, 0 and nothing.
    """
    tokens: Tokens = {}
    for number, (request, seen) in enumerate(zip(script, log, strict=False), start=1):
        wrong = seen.get("raised") or _wrong_with(memory, tokens, number, request, seen)
        if wrong:
            return number, wrong
    return 0, ""


def _wrong_with(
    memory: Memory, tokens: Tokens, number: int, request: list[str], seen: dict[str, Any]
) -> str:
    """What is wrong with a request; its tokens are as they should be afterwards."""
    kind, name, *child = request
    if kind == "append":
        wrong = _wrong_with_append(memory, tokens, number, name, seen)
        if wrong:
            return wrong
    elif name in tokens and kind == "fork":
        tokens[child[0]] = list(tokens[name])
    elif kind == "free":
        tokens.pop(name, None)
    return _wrong_with_tables(memory, tokens, seen.get("tables", {}), is_asked=bool(seen))


def _wrong_with_append(
    memory: Memory, tokens: Tokens, token: int, name: str, seen: dict[str, Any]
) -> str:
    """What is wrong with the place of a token; if nothing, it is written there."""
    after = {**tokens, name: [*tokens.get(name, []), token]}
    has_room = memory.needed(after) <= len(memory.cells)
    if seen["place"] is None:
        return "refused_early" if has_room else _wrong_with_refusal(seen)
    if not has_room:
        return "not_refused"
    copies = seen["copies"]
    if not all(len(each) == 3 and memory.has(each[0]) and memory.has(each[1]) for each in copies):
        return "no_such_cell"
    block, cell = seen["place"]
    for source, target, num_cells in copies:
        filled = (len(after[name]) - 1) % memory.block_size
        if target != block:
            return "other_target"
        if num_cells != filled:
            return "too_few_cells" if num_cells < filled else "too_many_cells"
        memory.copy(source, target, num_cells)
    if not memory.has(block, cell):
        return "no_such_cell"
    memory.cells[block][cell] = token
    tokens[name] = after[name]
    return ""


def _wrong_with_refusal(seen: dict[str, Any]) -> str:
    """What a refused request has changed, if anything."""
    return "changed" if seen["copies"] or seen["has_other_table"] else ""


def _wrong_with_tables(
    memory: Memory, tokens: Tokens, tables: dict[str, list[int]], *, is_asked: bool
) -> str:
    """What is wrong with the tables after a request."""
    if not is_asked:
        return ""
    for name, each in tokens.items():
        if name not in tables:
            return "refused_early"
        table = tables[name]
        if len(table) != -(-len(each) // memory.block_size) or not all(map(memory.has, table)):
            return "wrong_tables"
        if memory.read(table, len(each)) != each:
            return "lost_tokens"
    used = {block for name in tokens for block in tables[name]}
    return "blocks_too_many" if len(used) > memory.needed(tokens) else ""
