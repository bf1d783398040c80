"""Gradients of a large batch, one micro-batch after the other.

Each micro-batch runs forward and backward on its own, so only its activations are in memory;
backward adds to ``grad``. Each summed loss is divided by the number of targets of the *whole*
batch, so the result is exact for sequences of any length.

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

# Target of a token that has no loss: padding, or part of a prompt.
IGNORED = -100

Batches = Sequence[tuple[Tensor, Tensor]]


def ragged_batch(lengths: Sequence[int], vocab_size: int) -> tuple[Tensor, Tensor]:
    """Token ids and targets of sequences of different lengths, each of shape (b, s).

    Shorter sequences are padded to the longest; padding has the target -100. The target of id n is
    n + 1, in short sequences n - 1 (modulo v), so short sequences teach a model something else than
    long ones.

    Args:
        lengths: Tokens of each sequence; zero is allowed.
        vocab_size: Entries v of the vocabulary.

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
    is_padding = positions >= torch.tensor(lengths)[:, None]
    return ids.masked_fill(is_padding, 0), targets.masked_fill(is_padding, IGNORED)


def count_targets(targets: Tensor) -> int:
    """Number of targets that have a loss."""
    return int((targets != IGNORED).sum())


def sum_of_losses(model: nn.Module, ids: Tensor, targets: Tensor) -> Tensor:
    """Cross-entropy summed over all targets that are not ignored; zero if there are none.

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
    """Add the gradient of a batch's mean loss to ``grad``, one micro-batch at a time.

    Args:
        model: From token ids (b, s) to logits (b, s, v).
        ids: Token ids (b, s).
        targets: The next token of each, or -100 to ignore it.
        micro_batch_size: Sequences per micro-batch; the last may have fewer.

    Returns:
        The mean loss over all targets. Without targets it is 0.0, and no gradient changes.

    Raises:
        ValueError: If ``micro_batch_size`` is below one, or shapes differ.
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


def train(  # noqa: PLR0913, PLR0917  all that a training loop needs
    model: nn.Module,
    optimizer: Optimizer,
    scheduler: LRScheduler,
    micro_batches: Batches,
    micro_batches_per_step: int,
    max_norm: float,
) -> list[float | None]:
    """Train on groups of micro-batches, with one optimizer step per group.

    Args:
        model: From token ids (b, s) to logits (b, s, v).
        optimizer: Updates the model's parameters.
        scheduler: Advances only when the optimizer steps.
        micro_batches: Token ids and targets of each, with -100 for targets to ignore.
        micro_batches_per_step: Micro-batches per group; the last group may have fewer.
        max_norm: The gradient of a whole group is clipped to this norm.

    Returns:
        The mean loss of each group over all its targets; None where the step was skipped because
        the loss or the gradient is not finite. Without targets the mean is 0 / 0.

    Raises:
        ValueError: If ``micro_batches_per_step`` is below one, or shapes differ.
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
    """Take one step on a group; skip it if the loss or the gradient is not finite."""
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
    """Accumulate gradients in fp32 buffers, in every backward pass from now on.

    Each gradient is freed as soon as it is added, so the bf16 gradients are never all in memory.

    Returns:
        One buffer of zeros for each parameter that requires a gradient, in the model's order.
    """
    parameters = [each for each in model.parameters() if each.requires_grad]
    buffers = [torch.zeros_like(each, dtype=torch.float32) for each in parameters]
    for parameter, buffer in zip(parameters, buffers, strict=True):
        parameter.register_post_accumulate_grad_hook(partial(_move_gradient_to, buffer))
    return buffers


def _move_gradient_to(buffer: Tensor, parameter: Tensor) -> None:
    assert parameter.grad is not None
    buffer += parameter.grad
    parameter.grad = None
