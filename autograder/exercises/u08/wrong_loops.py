"""A training loop over groups of micro-batches with known mistakes, to recognise them by."""

import math
from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_, clip_grad_value_

from autograder.exercises.u08.ragged_batches import length_of, losses_of, num_targets

VARIANTS: dict[str, dict[str, str]] = {
    "schedule first": {"schedule": "before"},
    "mean of means": {"weigh": "mean of means"},
    "sum of means": {"weigh": "sum of means"},
    "sum": {"weigh": "sum"},
    "all positions": {"weigh": "all positions"},
    "all groups": {"weigh": "all groups"},
    "clip each": {"clip": "each"},
    "clip each and all": {"clip": "each and all"},
    "clip tensors": {"clip": "tensors"},
    "no clip": {"clip": "never"},
    "clip values": {"clip": "values"},
    "zero each": {"zero": "each"},
    "never zero": {"zero": "never"},
    "zero after a step": {"zero": "after a step"},
    "zero after a group": {"zero": "after a group"},
}

Batches = Sequence[tuple[Tensor, Tensor]]


def _factors(weigh: str, group: Batches, batches: Batches) -> list[float]:
    """Of the sums of the micro-batches' losses; one for the sum of no losses."""
    mine = [max(1, num_targets(targets)) for _, targets in group]
    whole = sum(num_targets(targets) for _, targets in group)
    everywhere = sum(num_targets(targets) for _, targets in batches)
    positions = sum(targets.numel() for _, targets in group)
    return {
        "": [1 / max(1, whole)] * len(group),
        "mean of means": [1 / (count * len(group)) for count in mine],
        "sum of means": [1 / count for count in mine],
        "sum": [1.0] * len(group),
        "all positions": [1 / positions] * len(group),
        "all groups": [1 / everywhere] * len(group),
    }[weigh]


def _clip(clip: str, weights: list[nn.Parameter], max_norm: float) -> None:
    """When the gradient of a group is whole."""
    if clip in ("group", "each and all"):
        clip_grad_norm_(weights, max_norm)
    if clip == "values":
        clip_grad_value_(weights, max_norm)
    for weight in weights if clip == "tensors" else ():
        clip_grad_norm_(weight, max_norm)


def wrong_loop(
    weigh: str = "", clip: str = "group", zero: str = "group", schedule: str = "after"
) -> Callable[..., None]:
    """A loop that is right but for what is named otherwise.

    Args:
        weigh: How micro-batches are weighed; empty for right.
        clip: ``"group"``, ``"each"`` micro-batch, ``"each and all"``, ``"tensors"`` one by one,
            ``"values"``, or ``"never"``.
        zero: Before each ``"group"``, before ``"each"`` micro-batch, ``"after a group"``, only
            ``"after a step"``, or ``"never"``.
        schedule: ``"after"`` the optimizer, or ``"before"`` it.
    """

    def loop(  # noqa: PLR0913, PLR0917  what the student's loop is given
        model: nn.Module, optimizer: Any, scheduler: Any, batches: Any, size: int, max_norm: float
    ) -> None:
        weights = list(model.parameters())
        for start in range(0, len(batches), size):
            group = batches[start : start + size]
            if zero == "group":
                optimizer.zero_grad()
            mean = 0.0
            for (ids, targets), factor in zip(group, _factors(weigh, group, batches), strict=True):
                if zero == "each":
                    optimizer.zero_grad()
                loss = losses_of(model, ids, targets).sum() * factor
                loss.backward()
                mean += loss.item()
                if clip.startswith("each"):
                    clip_grad_norm_(weights, max_norm)
            norm = length_of([each.grad for each in weights])
            _clip(clip, weights, max_norm)
            has_targets = any(num_targets(targets) for _, targets in group)
            is_step = has_targets and math.isfinite(mean) and math.isfinite(norm)
            if is_step:
                first, second = optimizer, scheduler
                if schedule == "before":
                    first, second = scheduler, optimizer
                first.step()
                second.step()
            if zero == "after a group" or (zero == "after a step" and is_step):
                optimizer.zero_grad()

    return loop
