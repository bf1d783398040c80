"""Small models and ragged batches in float64 for what accumulates gradients, and their oracles."""

import copy
import math
import random
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn

from course_utils.instruments import count_saved_bytes, trace_memory
from course_utils.reference.accumulation import IGNORED, sum_of_losses

# The same sums in another order: a few roundings of 1.1e-16 for numbers near one.
ROUNDING = 1e-9


def model_of(width: int, vocab_size: int) -> nn.Sequential:
    """From token ids (b, s) to logits (b, s, v), the same for the same sizes."""
    return copy.deepcopy(_template(width, vocab_size))


@lru_cache(maxsize=64)
def _template(width: int, vocab_size: int) -> nn.Sequential:
    with torch.random.fork_rng([]):
        torch.manual_seed(width * vocab_size)
        return nn.Sequential(
            nn.Embedding(vocab_size, width, dtype=torch.float64),
            nn.Linear(width, width, dtype=torch.float64),
            nn.Tanh(),
            nn.Linear(width, vocab_size, dtype=torch.float64),
        )


def batch_of(lengths: list[int], vocab_size: int) -> tuple[Tensor, Tensor]:
    """Random ids and targets (b, s); what fills a sequence up has the target -100."""
    generator = torch.Generator().manual_seed(sum(lengths) * vocab_size)
    shape = (2, len(lengths), max(1, *lengths))
    ids, targets = torch.randint(vocab_size, shape, generator=generator).unbind()
    is_filled = torch.arange(shape[2]) >= torch.tensor(lengths)[:, None]
    return ids, targets.masked_fill(is_filled, IGNORED)


def num_targets(targets: Tensor) -> int:
    """Targets that count."""
    return int((targets != IGNORED).sum())


def losses_of(model: nn.Module, ids: Tensor, targets: Tensor) -> Tensor:
    """The loss of each target that counts, without the function that everybody uses."""
    counts = targets != IGNORED
    scores: Tensor = model(ids).log_softmax(-1)[counts]
    return -scores.gather(-1, targets[counts][:, None])[:, 0]


def gradients_of(loss: Tensor, model: nn.Module) -> list[Tensor]:
    """Gradients of a loss, asked for one by one; nothing is added to ``grad``."""
    return list(torch.autograd.grad(loss, list(model.parameters())))


def length_of(tensors: Iterable[Tensor | None]) -> float:
    """Of all numbers of some tensors as one vector."""
    squares = [float(each.detach().double().square().sum()) for each in tensors if each is not None]
    return math.sqrt(sum(squares))


def ragged(rng: random.Random, count: int) -> list[int]:
    """Lengths that differ, short ones among them."""
    return rng.sample([1, 2, 3, 9, 10, 11, 12, 13], count)


def peak_bytes(run: Callable[[], object], model: nn.Module) -> int:
    """Most bytes that are live at once while something runs."""
    return trace_memory(run, model).peak_bytes


def kept_bytes(model: nn.Module, ids: Tensor, targets: Tensor) -> int:
    """Bytes that a micro-batch keeps for backward."""
    saved = count_saved_bytes(lambda: sum_of_losses(model, ids, targets), model)
    floats = (each for each in saved.tensors if each.dtype.is_floating_point)
    return sum(each.storage_bytes for each in floats)


def times_too_much(extra_bytes: int, size: int) -> int:
    """Extra bytes in sizes. Rounded: a tensor or two that lives a line longer is nothing."""
    return max(0, round(extra_bytes / size))


def is_number(value: Any) -> bool:
    """Whether it is a float or an int of Python's."""
    return type(value) in (int, float)
