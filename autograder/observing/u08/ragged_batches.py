"""Ragged batches and small models in float64, always the same for the same case."""

import torch
from torch import Tensor, nn

from course_utils.reference.accumulation import IGNORED


def model_of(width: int, vocab_size: int) -> nn.Sequential:
    """From token ids (b, s) to logits (b, s, v)."""
    with torch.random.fork_rng([]):
        torch.default_generator.manual_seed(width * vocab_size)
        return nn.Sequential(
            nn.Embedding(vocab_size, width, dtype=torch.float64),
            nn.Linear(width, width, dtype=torch.float64),
            nn.Tanh(),
            nn.Linear(width, vocab_size, dtype=torch.float64),
        )


def batch_of(lengths: list[int], vocab_size: int) -> tuple[Tensor, Tensor]:
    """Random ids and targets (b, s); padding has the target -100."""
    generator = torch.Generator().manual_seed(sum(lengths) * vocab_size)
    shape = (2, len(lengths), max(1, *lengths))
    ids, targets = torch.randint(vocab_size, shape, generator=generator).unbind()
    is_padding = torch.arange(shape[2]) >= torch.tensor(lengths)[:, None]
    return ids, targets.masked_fill(is_padding, IGNORED)


def times_too_much(extra_bytes: int, size: int) -> int:
    """Extra bytes in multiples of a size; rounded, so a tensor freed a line late is nothing."""
    return max(0, round(extra_bytes / size))
