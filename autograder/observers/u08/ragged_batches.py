"""Ragged batches and small models in float64, always the same for the same case.

And what is counted of passes through such a model.
"""

import torch
from torch import Tensor, nn

from autograder.checking.fact import Fact
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


def sequences_too_many(num_sequences: int) -> Fact:
    """Sequences beyond those of a micro-batch, in the largest pass."""
    return Fact(
        "sequences_too_many",
        num_sequences,
        "sequences too many in a pass",
        "How many sequences go through the model in each of your calls, and how many are in one "
        "micro-batch?",
    )


def micro_batches_held(num_micro_batches: int) -> Fact:
    """Extra bytes at the peak, in micro-batches."""
    return Fact(
        "micro_batches_held",
        num_micro_batches,
        "micro-batches whose activations are kept needlessly",
        "Which large tensors are alive while one micro-batch goes through the model and back, and "
        "which of them belong to another micro-batch or are there twice?",
    )
