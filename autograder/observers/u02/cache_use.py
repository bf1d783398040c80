"""What a loop does with its cache: what new tokens look at, and how often each one is written."""

import re
import traceback
from typing import Any

from torch import Tensor
from torch.nn import functional as F

from course_utils.instruments.operands import tensors_in
from course_utils.reference import Transformer

FILL = {"zero_", "fill_", "zeros", "zeros_like", "new_zeros", "full", "full_like"}
# What `hidden_states` says of tokens (b,), and of a cache that is full.
ONE_DIMENSION, NO_ROOM = "expected 2, got 1", r"token (\d+) comes"


class Looks:
    """How many tokens each call of the layers takes, and at how many those look.

    Attributes:
        calls: Both numbers of each call, by the attention of the first layer.
    """

    def __init__(self, model: Transformer) -> None:
        self.calls: list[list[int]] = []
        self._num_layers, self._num_attended = len(model.blocks), 0

    def note(self, function: Any, args: Any, kwargs: Any) -> None:
        """Note what an attention looks at, among all functions that are called."""
        if function is not F.scaled_dot_product_attention:
            return
        if self._num_attended % self._num_layers == 0:
            query, key = tensors_in((args, kwargs))[:2]
            self.calls.append([query.shape[-2], key.shape[-2]])
        self._num_attended += 1


class CacheWrites:
    """Positions that are written to caches. A storage is one if keys or values are copied there."""

    def __init__(self, model: Transformer) -> None:
        sizes = model.blocks[0].attention.model  # type: ignore[union-attr]
        self._shape = (sizes.num_kv_heads, sizes.head_dim)  # type: ignore[union-attr]
        self._num_buffers = 2 * len(model.blocks)
        self._written: list[tuple[str, Tensor]] = []  # kept, so that no other takes their place

    def note(self, name: str, results: list[Tensor]) -> None:
        """Keep what may be keys or values among the results of an operation that is no view."""
        if name not in FILL and "empty" not in name:
            like_keys = (
                each for each in results if each.dim() == 4 and each.shape[2:] == self._shape
            )
            self._written += [(name, each.detach()) for each in like_keys]

    @property
    def num_positions(self) -> int:
        """Positions written to the keys of a layer, or to its values."""
        caches = {_place(each) for name, each in self._written if name == "copy_"}
        written = (each for _, each in self._written if _place(each) in caches)
        positions = sum(each.shape[:2].numel() for each in written)
        return positions // self._num_buffers


def _place(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def refused(error: ValueError) -> tuple[bool, list[list[int]]]:
    """Whether `hidden_states` has refused tokens (b,), and what one would look at without room."""
    if traceback.extract_tb(error.__traceback__)[-1].name != "hidden_states":
        return False, []
    no_room = re.search(NO_ROOM, str(error))
    return ONE_DIMENSION in str(error), [[1, int(no_room[1])]] if no_room else []


def cache_mistake(calls: list[list[int]]) -> str:
    """What is wrong with a cache, by the new tokens of each call and the tokens they look at.

    Nothing where they look at as many as have come, or where whole sequences come again.
    """
    if len(calls) < 2 or any(new > 1 for new, _ in calls[1:]):
        return ""
    come = calls[0][0]
    beyond = [seen - come - number for number, (_, seen) in enumerate(calls[1:], 1)]
    first, last = beyond[0], beyond[-1]
    if not any(beyond):
        return ""
    if calls[-1][1] == 1:
        return "restarted"
    if last < first:
        return "uncut" if first > 0 else "overwritten"
    return "raised_twice" if last > first or first > 1 else "shifted"
