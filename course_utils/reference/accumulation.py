"""Gradients of a large batch, one micro-batch after the other.

Each micro-batch runs forward and backward by itself, so that only its activations are in memory;
backward adds to the gradients that are there. The sum of the losses of its targets over the number
of *all* targets makes the result exact, whatever the lengths of the sequences.

    >>> ids, targets = ragged_batch([5, 1, 3], vocab_size=7)
    >>> model = nn.Sequential(nn.Embedding(7, 4), nn.Linear(4, 7))
    >>> loss = accumulate(model, ids, targets, micro_batch_size=2)

Sources: PyTorch documentation, "Autograd mechanics"; Pascanu et al. 2013, On the difficulty of
training recurrent neural networks, section 3.2 (clipping by the norm).
"""

import math
from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import clip_grad_norm_
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

# The target of a token that does not count: padding, or a prompt.
IGNORED = -100

Batches = Sequence[tuple[Tensor, Tensor]]


def ragged_batch(lengths: Sequence[int], vocab_size: int) -> tuple[Tensor, Tensor]:
    """Token ids and targets of sequences of different lengths, each of shape (b, s).

    Shorter sequences are filled up to the longest; what fills them has the target -100. A token is
    followed by its successor, in short sequences by its predecessor, so that what a model learns
    from short ones is not what it learns from long ones.

    Args:
        lengths: Tokens of each sequence; zero is allowed.
        vocab_size: Words v.

    Raises:
        ValueError: If there is no sequence, or a length is below zero.
    """
    if not lengths or min(lengths) < 0:
        raise ValueError(f"ragged_batch: lengths must be one or more ints from 0, got {lengths!r}")
    positions = torch.arange(max(lengths))
    starts = torch.arange(len(lengths))[:, None]
    ids = (3 * starts + positions * (positions + 1) // 2) % vocab_size
    is_short = torch.tensor(lengths)[:, None] <= max(lengths) // 2
    targets = torch.where(is_short, ids - 1, ids + 1) % vocab_size
    is_filled = positions >= torch.tensor(lengths)[:, None]
    return ids.masked_fill(is_filled, 0), targets.masked_fill(is_filled, IGNORED)


def count_targets(targets: Tensor) -> int:
    """Targets that count."""
    return int((targets != IGNORED).sum())


def sum_of_losses(model: nn.Module, ids: Tensor, targets: Tensor) -> Tensor:
    """Cross-entropy summed over all targets that count; zero where there is none.

    Raises:
        ValueError: If ids and targets differ in shape.
    """
    if ids.shape != targets.shape:
        raise ValueError(
            f"ids and targets must have one shape (b, s), got {tuple(ids.shape)} and "
            f"{tuple(targets.shape)}"
        )
    logits = model(ids).flatten(0, 1)
    return F.cross_entropy(logits, targets.flatten(), ignore_index=IGNORED, reduction="sum")


def accumulate(model: nn.Module, ids: Tensor, targets: Tensor, micro_batch_size: int) -> float:
    """Add the gradients of the mean loss of a batch to ``grad``, in micro-batches.

    Args:
        model: From token ids (b, s) to logits (b, s, v).
        ids: Token ids (b, s).
        targets: The token that follows each, or -100 where none is to be learnt.
        micro_batch_size: Sequences of a micro-batch; the last may be smaller.

    Returns:
        The mean loss over all targets that count. Without any it is 0.0, and no gradient changes.

    Raises:
        ValueError: If there is no sequence in a micro-batch, or shapes differ.
    """
    if micro_batch_size < 1:
        raise ValueError(f"accumulate: micro_batch_size must be above zero, got {micro_batch_size}")
    num_targets = count_targets(targets)
    if num_targets == 0:
        return 0.0
    mean = 0.0
    parts = zip(ids.split(micro_batch_size), targets.split(micro_batch_size), strict=True)
    for some_ids, some_targets in parts:
        loss = sum_of_losses(model, some_ids, some_targets) / num_targets
        loss.backward()
        mean += loss.item()
    return mean


def train(  # noqa: PLR0913, PLR0917  all that a training loop is given
    model: nn.Module,
    optimizer: Optimizer,
    scheduler: LRScheduler,
    micro_batches: Batches,
    micro_batches_per_step: int,
    max_norm: float,
) -> list[float | None]:
    """Train on groups of micro-batches, one step of the optimizer for each group.

    Args:
        model: From token ids (b, s) to logits (b, s, v).
        optimizer: Of the model's parameters.
        scheduler: Advances with each step of the optimizer, and only then.
        micro_batches: Token ids and targets of each, -100 where none is to be learnt.
        micro_batches_per_step: Of a group; the last group may have fewer.
        max_norm: The gradient of a whole group is shortened to this norm if it is longer.

    Returns:
        For each group its mean loss over all its targets; None where this or the gradient is not
        finite, so that there was no step. Without targets the mean is 0 / 0.

    Raises:
        ValueError: If there is no micro-batch in a group, or shapes differ.
    """
    if micro_batches_per_step < 1:
        raise ValueError(
            f"train: micro_batches_per_step must be above zero, got {micro_batches_per_step}"
        )
    starts = range(0, len(micro_batches), micro_batches_per_step)
    groups = [micro_batches[start : start + micro_batches_per_step] for start in starts]
    return [_step(model, optimizer, scheduler, group, max_norm) for group in groups]


def _step(
    model: nn.Module,
    optimizer: Optimizer,
    scheduler: LRScheduler,
    group: Batches,
    max_norm: float,
) -> float | None:
    """One step on a group, or none where its loss or its gradient is not finite."""
    num_targets = sum(count_targets(targets) for _, targets in group)
    optimizer.zero_grad()
    mean = 0.0
    for ids, targets in group:
        loss = sum_of_losses(model, ids, targets) / num_targets
        loss.backward()
        mean += loss.item()
    norm = clip_grad_norm_(model.parameters(), max_norm)
    if not (math.isfinite(mean) and math.isfinite(norm)):
        return None
    optimizer.step()
    scheduler.step()
    return mean


def sum_in_fp32(model: nn.Module) -> list[Tensor]:
    """Buffers in fp32 into which every backward pass from now on adds its gradients.

    Each gradient is let go as soon as it is added, so that those in bf16 are never all there.

    Returns:
        One buffer of zeros for each parameter that wants a gradient, in the model's order.
    """
    parameters = [each for each in model.parameters() if each.requires_grad]
    buffers = [torch.zeros_like(each, dtype=torch.float32) for each in parameters]
    for parameter, buffer in zip(parameters, buffers, strict=True):
        parameter.register_post_accumulate_grad_hook(partial(_move_to, buffer))
    return buffers


def _move_to(buffer: Tensor, parameter: Tensor) -> None:
    assert parameter.grad is not None
    buffer += parameter.grad
    parameter.grad = None
