"""A small server: sequences come, share, and go, and all their keys and values lie in one memory.

    >>> server = ServedModel(model, PagedCache(num_blocks=64, block_size=8), 64, 8)
    >>> logits = server.feed("first", token_id)  # (v,)
    >>> server.tables.fork("first", "second")

The tables say in which block and cell a token lies; the keys and values of all layers lie in the
same block and cell of a memory for each layer. One token at a time, for the eye: a real server
takes a token of every running sequence through the layers together.
"""

from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional as F

from course_utils.reference.generation import attention_of, projected
from course_utils.reference.transformer import Block, Transformer


class Tables(Protocol):
    """What a paged cache does, such as `paged_cache.PagedCache`."""

    copies: list[tuple[int, int, int]]

    def append(self, sequence: object) -> tuple[int, int]:
        """Block and cell of the next token."""

    def table(self, sequence: object) -> list[int]:
        """Blocks of a sequence."""

    def fork(self, sequence: object, child: object) -> None:
        """Share all blocks of a sequence."""

    def free(self, sequence: object) -> None:
        """End a sequence."""


class ServedModel:
    """A model, tables, and the memory that they are about.

    Attributes:
        tables: Where each token lies.
        peak_blocks: The most blocks that were in use at once.
    """

    def __init__(
        self, model: Transformer, tables: Tables, num_blocks: int, block_size: int
    ) -> None:
        """Allocate the memory: (blocks, cells, a_kv, d) for each layer, for keys and for values."""
        sizes = attention_of(model, 0).model
        shape = num_blocks, block_size, sizes.num_kv_heads, sizes.head_dim
        self._keys, self._values = (
            [model.head.weight.new_zeros(shape) for _ in model.blocks] for _ in range(2)
        )
        self.tables, self.peak_blocks = tables, 0
        self._model, self._block_size, self._known = model, block_size, set[object]()

    @torch.no_grad()
    def feed(self, sequence: object, token_id: int) -> Tensor:
        """Take the next token of a sequence through the model: logits (v,) of the one after it."""
        _, cell = self.tables.append(sequence)
        self._copy()
        table = self.tables.table(sequence)
        position = (len(table) - 1) * self._block_size + cell
        x: Tensor = self._model.embedding(torch.tensor([token_id]))
        for layer, each in enumerate(self._model.blocks):
            assert isinstance(each, Block)
            x = x + self._attended(layer, each.attention_norm(x), table, position)
            x = x + each.ffn(each.ffn_norm(x))
        self._note_blocks(sequence)
        logits: Tensor = self._model.head(self._model.final_norm(x))[0]
        return logits

    def continue_with(self, sequence: object, token_ids: list[int], num_new: int) -> list[int]:
        """Feed tokens to a sequence, then its own most likely ones; the new ones."""
        fed, new = list(token_ids), list[int]()
        while len(new) < num_new:
            logits = [self.feed(sequence, each) for each in fed]
            fed = [int(logits[-1].argmax())]
            new += fed
        return new

    def fork(self, sequence: object, child: object) -> None:
        """Begin a sequence that has all tokens of another one."""
        self.tables.fork(sequence, child)
        self._note_blocks(child)

    def free(self, sequence: object) -> None:
        """End a sequence."""
        self.tables.free(sequence)
        self._known.discard(sequence)

    def _copy(self) -> None:
        """Do the copies that the tables ask for, in all layers."""
        for source, target, num_cells in self.tables.copies:
            for memory in (*self._keys, *self._values):
                memory[target, :num_cells] = memory[source, :num_cells]
        self.tables.copies.clear()

    def _attended(self, layer: int, x: Tensor, table: list[int], position: int) -> Tensor:
        """Attention of one token (1, h) over the blocks of its table, itself included."""
        attention = attention_of(self._model, layer)
        q, k, v = (each[:, 0] for each in projected(attention, x[:, None], position))
        block, cell = table[-1], position % self._block_size
        self._keys[layer][block, cell], self._values[layer][block, cell] = k[0], v[0]
        keys, values = (
            memory[layer][table].flatten(0, 1)[: position + 1].transpose(0, 1)[None]
            for memory in (self._keys, self._values)
        )
        out = F.scaled_dot_product_attention(q[:, :, None], keys, values, enable_gqa=True)
        attended: Tensor = attention.output(out.flatten(1))
        return attended

    def _note_blocks(self, sequence: object) -> None:
        self._known.add(sequence)
        used = {block for each in self._known for block in self.tables.table(each)}
        self.peak_blocks = max(self.peak_blocks, len(used))
