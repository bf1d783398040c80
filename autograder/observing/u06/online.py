"""An online softmax: its result, and how many blocks are in memory at once."""

import weakref
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from autograder.checking.exercise_check import Case
from autograder.checking.plain_data import Plain
from autograder.observing.observation import errors_as_data
from autograder.observing.u06.compared import RESULT_LABELS, beside, pair_of_tensors

# Kinds of scores, by scenario.
KINDS = {
    "ordinary": ("ordinary", "equal scores"),
    "extreme": ("largest first", "largest last", "all very low", "rows far apart"),
    "masked": ("an empty row", "an empty first block", "an empty block later"),
}
BY_HAND = "by hand"
ALLOWED_BLOCKS = 2  # the one in use, and the next as it comes
LABELS = {"blocks_too_many": "blocks in memory at once, beyond two", **RESULT_LABELS}


def inputs_of(case: Case) -> tuple[Tensor, Tensor]:
    """All scores (rows, keys) and values (keys, width) of a case."""
    kind, rows, lengths = case["kind"], case["rows"], case["block_lengths"]
    if kind == BY_HAND:
        scores = torch.tensor([[1.0, 2.0, 5.0]], dtype=torch.float64).log()
        return scores, torch.tensor([[1.0], [2.0], [3.0]], dtype=torch.float64)
    num_keys, first = sum(lengths), lengths[0]
    generator = torch.Generator().manual_seed(1000 * rows + num_keys)
    scores, values = (
        torch.randn(shape, generator=generator, dtype=torch.float64)
        for shape in ((rows, num_keys), (num_keys, case["width"]))
    )
    match kind:
        case "equal scores":
            scores = scores[:, :1].expand_as(scores).clone()
        case "largest first":
            scores[:, 0] += 900
        case "largest last":
            scores[:, -1] += 900
        case "all very low":
            scores -= 900
        case "rows far apart":
            scores += torch.linspace(-900, 900, rows, dtype=torch.float64)[:, None]
        case "an empty row":
            scores[rows // 2] = -torch.inf
        case "an empty first block":
            scores[1::2, :first] = -torch.inf
        case "an empty block later":
            scores[::2, first : first + lengths[1]] = -torch.inf
    return scores, values


class Blocks:
    """An iterator over blocks that come once, each made when it is asked for.

    Attributes:
        most_alive: The most blocks that were in memory at once.
    """

    def __init__(self, case: Case) -> None:
        """Cut the inputs of a case."""
        scores, values = inputs_of(case)
        lengths = case["block_lengths"]
        self._parts = iter(list(zip(scores.split(lengths, 1), values.split(lengths), strict=True)))
        self._made: list[weakref.ref[Any]] = []
        self.most_alive = 0

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        """The iterator itself."""
        return self

    def __next__(self) -> tuple[Tensor, Tensor]:
        """The next block."""
        scores, values = (each.clone() for each in next(self._parts))
        self._made.append(weakref.ref(scores.untyped_storage()))
        self.most_alive = max(self.most_alive, sum(ref() is not None for ref in self._made))
        return scores, values


@errors_as_data
def observe(answer: Any, case: Case) -> dict[str, Any]:
    """Result and log-sum-exp, and the most blocks that were alive when one came."""
    blocks = Blocks(case)
    out, lse = pair_of_tensors(answer(blocks))
    return {"out": out, "lse": lse, "most_alive": blocks.most_alive}


def summarise(case: Case, observed: Plain, right: Plain) -> dict[str, float]:
    """Blocks beyond those allowed, and the numbers beside the right ones."""
    excess = max(0, observed["most_alive"] - ALLOWED_BLOCKS)
    numbers = beside(observed["out"], observed["lse"], (right["out"], right["lse"]))
    return {"blocks_too_many": excess, **numbers}
