"""An online softmax: its result, and how many blocks are in memory at once."""

import weakref
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from autograder.checking.fact import Case, Fact, Plain
from autograder.observers.random_numbers import normal_numbers
from autograder.observers.tools import errors_as_data
from autograder.observers.u06.compared import facts_beside, pair_of_tensors
from course_utils.instruments.operands import tensors_in

# Kinds of scores, by scenario.
KINDS = {
    "ordinary": ("ordinary", "equal scores"),
    "extreme": ("largest first", "largest last", "all very low", "rows far apart"),
    "masked": ("an empty row", "an empty first block", "an empty block later"),
}
BY_HAND = "by hand"
ALLOWED_BLOCKS = 2  # the one in use, and the next as it comes


def inputs_of(case: Case) -> tuple[Tensor, Tensor]:
    """All scores (rows, keys) and values (keys, width) of a case."""
    kind, rows, lengths = case["kind"], case["rows"], case["block_lengths"]
    if kind == BY_HAND:
        scores = torch.tensor([[1.0, 2.0, 5.0]], dtype=torch.float64).log()
        return scores, torch.tensor([[1.0], [2.0], [3.0]], dtype=torch.float64)
    num_keys, first = sum(lengths), lengths[0]
    shapes = (rows, num_keys), (num_keys, case["width"])
    scores, values = normal_numbers(1000 * rows + num_keys, *shapes)
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


class _Alive:
    """Which blocks were in memory at once, as they came or copied, and the largest tensor made."""

    def __init__(self) -> None:
        self.most_blocks = self.largest_elements = 0
        self._blocks: list[Tensor] = []
        self._forms: list[list[weakref.ref[Any]]] = []

    def note(self, scores: Tensor) -> None:
        """Count the blocks that are in memory now, with one more."""
        self._blocks.append(scores.clone())
        self._forms.append([weakref.ref(scores.untyped_storage())])
        alive = sum(any(ref() is not None for ref in forms) for forms in self._forms)
        self.most_blocks = max(self.most_blocks, alive)

    def note_made(self, made: Tensor) -> None:
        """Remember a tensor that an answer made, as a form of the last block with its numbers.

        A block of one key is its own maximum, which may stay.
        """
        self.largest_elements = max(self.largest_elements, made.numel())
        for block, forms in zip(reversed(self._blocks), reversed(self._forms), strict=True):
            if made.shape == block.shape and block.shape[1] > 1 and torch.equal(made, block):
                forms.append(weakref.ref(made.untyped_storage()))
                break


class _Made(TorchDispatchMode):
    """Notes the tensors that operations make."""

    def __init__(self, alive: _Alive) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._alive = alive

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        for each in () if func.is_view else tensors_in(result):
            self._alive.note_made(each)
        return result


def blocks_of(case: Case, alive: _Alive) -> Iterator[tuple[Tensor, Tensor]]:
    """Blocks that come once, each copied when it is asked for: only the answer keeps it."""
    scores, values = inputs_of(case)
    lengths = case["block_lengths"]
    pairs = [*zip(scores.split(lengths, 1), values.split(lengths), strict=True)]
    return _one_by_one(pairs, alive)


def _one_by_one(
    pairs: list[tuple[Tensor, Tensor]], alive: _Alive
) -> Iterator[tuple[Tensor, Tensor]]:
    for pair in pairs:
        with torch._C._DisableTorchDispatch():
            block = pair[0].clone(), pair[1].clone()
            alive.note(block[0])
        yield block
        del block


def _most_alive(case: Case, alive: _Alive) -> int:
    """The most blocks in memory: all of them, if one tensor holds the scores of all."""
    lengths = case["block_lengths"]
    is_joined = alive.largest_elements >= case["rows"] * sum(lengths)
    return len(lengths) if is_joined and len(lengths) > ALLOWED_BLOCKS else alive.most_blocks


@errors_as_data
def observe(answer: Any, case: Case) -> dict[str, Any]:
    """Result and log-sum-exp, and the most blocks that were alive when one came."""
    alive = _Alive()
    blocks = blocks_of(case, alive)
    with _Made(alive):
        out, lse = pair_of_tensors(answer(blocks))
    return {"out": out, "lse": lse, "most_alive": _most_alive(case, alive)}


def facts(case: Case, observed: Plain, right: Plain) -> list[Fact]:
    """Blocks beyond those allowed, and the numbers beside the right ones."""
    return [
        Fact(
            "blocks_too_many",
            max(0, observed["most_alive"] - ALLOWED_BLOCKS),
            "blocks in memory beyond the two allowed",
            "Earlier blocks are still in memory. Which of your names holds one when the next one "
            "comes?",
        ),
        *facts_beside(
            (observed["out"], observed["lse"]),
            (right["out"], right["lse"]),
            ask_of_result="Follow one wrong row from block to block. What are its maximum and its "
            "two sums after each block, and which maximum was subtracted in each of the sums?",
            ask_of_lse="The result is right, its log-sum-exp is not. Over which keys does it go in "
            "a wrong row, what was subtracted from their scores, and which shape should the tensor "
            "have?",
        ),
    ]
