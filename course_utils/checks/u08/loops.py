"""A training loop over groups of micro-batches with known mistakes, to recognise them by."""

import math
from collections.abc import Callable
from typing import Any

from torch import nn
from torch.nn.utils import clip_grad_norm_, clip_grad_value_

from course_utils.checks.u08.trials import losses_of, num_targets

VARIANTS: dict[str, dict[str, str]] = {
    "schedule first": {"schedule": "before"},
    "mean of means": {"weigh": "mean of means"},
    "sum of means": {"weigh": "sum of means"},
    "sum": {"weigh": "sum"},
    "clip each": {"clip": "each"},
    "no clip": {"clip": "never"},
    "clip values": {"clip": "values"},
    "zero each": {"zero": "each"},
    "never zero": {"zero": "never"},
    "zero after a step": {"zero": "after a step"},
}


def _factor(weigh: str, num_mine: int, num_all: int, num_parts: int) -> float:
    """Of the sum of a micro-batch's losses."""
    return {
        "": lambda: 1 / num_all,
        "mean of means": lambda: 1 / (num_mine * num_parts),
        "sum of means": lambda: 1 / num_mine,
        "sum": lambda: 1.0,
    }[weigh]()


def wrong_loop(
    weigh: str = "", clip: str = "group", zero: str = "group", schedule: str = "after"
) -> Callable[..., None]:
    """A loop that is right but for what is named otherwise.

    Args:
        weigh: How micro-batches are weighed; empty for right.
        clip: ``"group"``, ``"each"`` micro-batch, ``"never"``, or ``"values"``.
        zero: ``"group"``, ``"each"`` micro-batch, ``"never"``, or only ``"after a step"``.
        schedule: ``"after"`` the optimizer, or ``"before"`` it.
    """

    def loop(  # noqa: PLR0913, PLR0917  what the student's loop is given
        model: nn.Module, optimizer: Any, scheduler: Any, batches: Any, size: int, max_norm: float
    ) -> None:
        for start in range(0, len(batches), size):
            group = batches[start : start + size]
            num_all = sum(num_targets(targets) for _, targets in group)
            if not num_all:
                continue
            mean = 0.0
            for ids, targets in group:
                if zero == "each":
                    optimizer.zero_grad()
                num_mine = num_targets(targets)
                factor = _factor(weigh, num_mine, num_all, len(group))
                loss = losses_of(model, ids, targets).sum() * factor
                loss.backward()
                mean += loss.item()
                if clip == "each":
                    clip_grad_norm_(model.parameters(), max_norm)
            norm = float(clip_grad_norm_(model.parameters(), math.inf))
            if clip == "group":
                clip_grad_norm_(model.parameters(), max_norm)
            if clip == "values":
                clip_grad_value_(model.parameters(), max_norm)
            is_finite = math.isfinite(mean) and math.isfinite(norm)
            if is_finite:
                if schedule == "before":
                    scheduler.step()
                optimizer.step()
                if schedule == "after":
                    scheduler.step()
            if zero in ("group", "each") or (zero == "after a step" and is_finite):
                optimizer.zero_grad()

    return loop
